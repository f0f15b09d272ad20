#include "families.h"

#include <algorithm>

#include "table.h"

namespace rotary::embedded {
std::string_view models() noexcept;  // data/models.json
}

namespace rotary::files {
namespace {

const ModelTable& table() {
  static const ModelTable all(embedded::models());
  return all;
}

bool holds(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

std::span<const std::string_view> model_types() { return table().types; }
std::span<const Child> children() { return table().children; }
std::span<const Refusal> refused_types() { return table().refused; }
std::span<const std::string_view> types_without_rope() { return table().without_rope; }

const Family* find_family(std::string_view model_type) { return table().find(model_type); }

const GgufArchitecture* find_architecture(std::string_view name) {
  for (const GgufArchitecture& known : table().architectures) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

bool known_without_rope(std::string_view model_type) { return holds(table().without_rope, model_type); }

std::string_view refusal(std::string_view model_type) {
  for (const Refusal& known : refused_types()) {
    if (known.type == model_type) return known.why;
  }
  return {};
}

std::vector<std::string_view> words(std::string_view list) {
  std::vector<std::string_view> found;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(' '), list.size());
    found.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return found;
}

bool is_our_name(std::string_view model_type) { return holds(table().our_names, model_type); }

const Child* find_child(std::string_view parent, std::string_view part) {
  const std::span<const Child> all = children();
  const auto found = std::find_if(all.begin(), all.end(), [parent, part](const Child& child) {
    return child.parent == parent && child.part == part;
  });
  return found == all.end() ? nullptr : &*found;
}

std::string_view meant_type(std::string_view model_type, std::string_view architecture) {
  for (const Misnamed& known : table().misnamed) {
    if (known.type == model_type && known.architecture == architecture) return known.family;
  }
  return {};
}

std::string_view child_type(std::string_view parent, std::string_view part) {
  const Child* child = find_child(parent, part);
  return child == nullptr ? std::string_view() : child->type;
}

}  // namespace rotary::files
