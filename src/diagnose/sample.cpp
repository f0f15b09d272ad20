#include <algorithm>
#include <array>
#include <cmath>

#include "examination.h"
#include "files/tensors/element_types.h"
#include "files/tensors/input.h"
#include "files/text/paths.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

std::string label(const Tensor& tensor) { return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'"; }

std::vector<double> numbers(const Tensor& tensor) {
  if (!files::is_float(tensor.type)) {
    fail(Code::DTYPE, "diagnose", label(tensor) + " must be F64, F32, F16 or BF16 but got " + name(tensor.type));
  }
  return files::numbers_of(tensor);
}

bool is_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

struct Storage {
  const char* name;
  double (*rounded)(double);
  double unit;
  double least;
};
constexpr std::array<Storage, 4> storages = {{
    {"bf16", [](double value) -> double { return to_float(to_bf16(static_cast<float>(value))); }, 0x1p-8, 0x1p-133},
    {"f16", [](double value) -> double { return to_float(to_f16(static_cast<float>(value))); }, 0x1p-11, 0x1p-24},
    {"f32", [](double value) -> double { return static_cast<float>(value); }, 0x1p-24, 0x1p-149},
    {"f64", [](double value) { return value; }, 0x1p-53, 0x1p-1074},
}};

// A bf16 tensor is often saved as f32: the values tell what they were rounded to.
const Storage& coarsest(std::span<const double> values) {
  return *std::ranges::find_if(storages, [&](const Storage& storage) {
    return std::ranges::all_of(values,
                               [&](double value) { return !std::isfinite(value) || storage.rounded(value) == value; });
  });
}

// ---- the tensors of two files that are to be compared ------------------------------------------

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
  return names;
}

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::string text;
  for (const TensorInfo& info : infos) text += (text.empty() ? "" : ", ") + info.name;
  return text.empty() ? "none" : text;
}

}  // namespace

void bring_near_1(Sample& sample) {
  double largest = 0;
  for (const Elements& values : {sample.before, sample.after}) {
    for (const double value : values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  constexpr double most = 0x1p130, least = 0x1p-150;  // the range of float32 is kept as it is
  if (largest == 0 || (largest <= most && largest >= least)) return;
  const int exponent = -std::ilogb(largest);
  for (Elements* values : {&sample.before, &sample.after}) {
    std::vector<double> near = values->copied();
    for (double& value : near) value = std::ldexp(value, exponent);
    *values = std::move(near);
  }
  sample.least = std::ldexp(sample.least, exponent);
}

Finding find_not_finite(const Sample& sample, const Layout& layout) {
  Finding found = finding(Cause::not_finite);
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    for (std::size_t element = 0; found.numbers.empty() && element < sample.x(first).size(); ++element) {
      for (const bool before : {true, false}) {
        const double value = (before ? sample.x(first) : sample.y(first))[element];
        if (std::isfinite(value) || !found.numbers.empty()) continue;
        found.numbers = {{"when", before ? "before" : "after"}, {"value", value, 3}};
        if (layout.batch > 1) found.numbers.push_back({"batch", number(row / layout.tokens)});
        found.numbers.push_back({"token", number(row % layout.tokens)});
        found.numbers.push_back({"head", number(head)});
        found.numbers.push_back({"element", number(element)});
      }
    }
  });
  return found;
}

const char* type_of(double unit) noexcept {
  return std::ranges::find_if(storages, [=](const Storage& one) { return one.unit <= unit; })->name;
}

Sample Sample::within(const Bounds& bounds) const {
  Sample other = *this;
  static_cast<Bounds&>(other) = bounds;
  return other;
}

Sample Sample::loosened() const {
  return within({std::max(unit, before_unit), std::max(least, before_least), true, noise});
}

Numbers Sample::in_whole(std::size_t dimension, Numbers list) const {
  for (std::int64_t& one : list)
    one = numbers[dimension].empty() ? one : numbers[dimension][static_cast<std::size_t>(one)];
  return list;
}

Sample Sample::part(const Reading& reading, std::size_t dimension, const Numbers& some) const {
  const std::size_t at = reading.word.find("bth"[dimension]);
  if (at == std::string::npos || std::ssize(some) == shape[at]) return *this;
  Sample part = *this;
  part.shape[at] = std::ssize(some);
  part.numbers[dimension] = in_whole(dimension, some);
  std::int64_t inner = 1;
  for (std::size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  for (Elements* elements : {&part.before, &part.after}) {
    std::vector<double> taken;
    for (auto plane = elements->begin(); plane != elements->end(); plane += shape[at] * inner) {
      for (const std::int64_t number : some)
        taken.insert(taken.end(), plane + number * inner, plane + (number + 1) * inner);
    }
    *elements = std::move(taken);
  }
  return part;
}

Sample sample_as_given(const Tensor& before, const Tensor& after, int head_dim) {
  const auto refuse = [](const std::string& sentence) { fail(Code::SHAPE, "diagnose", sentence); };
  const std::string shape = detail::shape_text(before.shape);
  if (before.shape != after.shape) {
    refuse(label(before) + " must have one shape before and after but got " + shape + " and " +
           detail::shape_text(after.shape));
  }
  const std::size_t rank = before.shape.size();
  constexpr std::int64_t widest = 65536;
  if (rank < 2 || rank > 4 || before.elements() == 0 || (head_dim == 0 && before.shape.back() > widest)) {
    refuse(label(before) +
           " must have two to four dimensions, the last of them head_dim, and a token at least but got " + shape);
  }
  Sample sample;
  sample.name = before.name.empty() ? "the tensor" : before.name;
  sample.shape = before.shape;
  const std::int64_t last = before.shape.back();
  sample.head_dim = head_dim != 0 ? head_dim : static_cast<int>(last);
  if (last != sample.head_dim) {
    if (last % head_dim != 0 || rank == 4) {
      refuse("head_dim must be " + std::to_string(head_dim) + " but " + label(before) + " is " + shape);
    }
    sample.shape.back() = last / head_dim;
    sample.shape.push_back(head_dim);
  }
  sample.before = numbers(before);
  sample.after = numbers(after);
  sample.finite = is_finite(sample.before) && is_finite(sample.after);
  const Storage& storage = coarsest(sample.after);
  sample.unit = storage.unit;
  sample.least = storage.least;
  const Storage& of_before = coarsest(sample.before);
  sample.before_unit = of_before.unit;
  sample.before_least = of_before.least;
  sample.before_type = of_before.name;
  if (before.type == after.type) return sample;
  // What the conversion alone changes is no rotation; not where each is rounded for itself.
  const bool near = of_before.unit > storage.unit / 16;
  if (!near || of_before.unit >= storage.unit) {
    std::vector<double> rounded(sample.before.size());
    std::ranges::transform(sample.before, rounded.begin(), storage.rounded);
    sample.before = std::move(rounded);
  }
  if (near) sample.before_unit += storage.unit;
  return sample;
}

Sample make_sample(const Tensor& before, const Tensor& after, int head_dim) {
  Sample sample = sample_as_given(before, after, head_dim);
  bring_near_1(sample);
  return sample;
}

Sample sample_of(const Tensor& before, const Tensor& after, const Subject& subject) {
  Sample sample = sample_as_given(before, after, subject.head_dim_of(before));
  sample.executor = subject.executor;
  if (subject.beside.empty() || sample.head_dim != subject.used->rope.head_dim) return sample;
  std::vector<double> left = sample.after.copied();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int element = static_cast<int>(i % static_cast<std::size_t>(sample.head_dim));
    for (const ModelRope* block : subject.beside) {
      const int offset = element - block->first;
      if (offset >= 0 && offset < block->rope.rotary_dim) left[i] = sample.before[i];
    }
  }
  sample.after = std::move(left);
  return sample;
}

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
    fail(Code::TENSOR, operation, "the files must have a tensor of one name but got ", names_of(first.infos()), " in '",
         first.name(), "' and ", names_of(second.infos()), " in '", second.name(), "'");
  }
  for (const std::string& name : chosen) add(name);
  for (const auto& [file, other] : {std::pair(&first, &second), {&second, &first}}) {
    for (const TensorInfo& info : file->infos()) {
      const bool is_q_or_k = info.name == "q" || info.name == "k" ||
                             (tools::layer_of(info.name) && tools::is_q_or_k(tools::role_of(info.name)));
      if (!is_q_or_k || !names.empty() || operation != "check" || find(other->infos(), info.name) != nullptr) continue;
      pairs.push_back({info.name, file->read(info.name), {}});  // that nothing was made of it is said
    }
  }
  return pairs;
}

}  // namespace rotary::diagnose
