// The tensors of two files that are compared.
#include <algorithm>

#include "rotary/diagnose.h"
#include "subject/names.h"
#include "tensors/formats.h"
#include "text/paths.h"
#include "values/fail.h"

namespace rotary::diagnose {

using tools::Role;

namespace {

const TensorInfo* find(const std::vector<TensorInfo>& infos, const std::string& name) {
  const auto found =
      std::find_if(infos.begin(), infos.end(), [&](const TensorInfo& info) { return info.name == name; });
  return found == infos.end() ? nullptr : &*found;
}

// with_value: v too, which is not to be rotated.
std::vector<std::string> common_names(const std::vector<TensorInfo>& before, const std::vector<TensorInfo>& after,
                                      bool with_value) {
  std::vector<std::string> names;
  for (const char* name : {"q", "k", "v"}) {
    const TensorInfo *one = find(before, name), *other = find(after, name);
    const bool of_value = *name == 'v', like = one != nullptr && other != nullptr && one->shape == other->shape;
    if (of_value ? with_value && like && !names.empty() : one != nullptr && other != nullptr) names.emplace_back(name);
  }
  if (!names.empty()) return names;
  for (const TensorInfo& info : before) {
    if (files::is_float(info.type) && info.shape.size() > 1 && find(after, info.name) != nullptr)
      names.push_back(info.name);
  }
  const auto is_other = [](const std::string& name) {
    const Role role = tools::role_of(name);
    return !tools::is_q_or_k(role) && role != Role::v;
  };
  if (!std::ranges::all_of(names, is_other)) std::erase_if(names, is_other);  // beside q and k
  std::ranges::stable_sort(names, {}, tools::layer_of);
  return names;
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text.empty() ? "none" : text;
}

}  // namespace

std::vector<TensorPair> read_pairs(const std::string& operation, const std::string& before, const std::string& after,
                                   const std::vector<std::string>& names) {
  if (before == "-" && after == "-") {
    fail(Code::VALUE, operation, "standard input holds one file: - can stand for one of the two");
  }
  files::InputTensors first(files::path_of(before)), second(files::path_of(after));
  std::vector<TensorPair> pairs;
  const auto add = [&](const std::string& name) {
    pairs.push_back({name, first.read(name), second.read(name)});
    pairs.back().before.name = pairs.back().after.name = name;
  };
  if (first.format() == files::Format::npy || second.format() == files::Format::npy) {
    const files::InputTensors& named = first.format() == files::Format::npy ? second : first;
    if (names.empty() && named.infos().size() != 1) {
      fail(Code::TENSOR, operation, "--tensor must name one of ", names_of(named.infos()),
           " beside an .npy but got none");
    }
    add(names.empty() ? named.infos().front().name : names.front());
    return pairs;
  }
  const std::vector<std::string> chosen =
      names.empty() ? common_names(first.infos(), second.infos(), operation == "check") : names;
  if (chosen.empty()) {
    fail(Code::TENSOR, operation, "the files must have tensors of the same names but '", first.name(), "' holds ",
         names_of(first.infos()), " and '", second.name(), "' holds ", names_of(second.infos()),
         ": rename those of one file");
  }
  for (const std::string& name : chosen) add(name);
  for (const auto& [file, other] : {std::pair(&first, &second), {&second, &first}}) {
    for (const TensorInfo& info : file->infos()) {
      const bool is_q_or_k = info.name == "q" || info.name == "k" ||
                             (tools::layer_of(info.name) && tools::is_q_or_k(tools::role_of(info.name)));
      if (!is_q_or_k || !names.empty() || operation != "check" || find(other->infos(), info.name) != nullptr) continue;
      pairs.push_back({info.name, file->read(info.name), {}});  // the answer says that it stands in one file only
    }
  }
  return pairs;
}

}  // namespace rotary::diagnose
