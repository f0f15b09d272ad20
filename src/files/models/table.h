// Reads data/models.json. For table.cpp and its test; everything else asks families.h.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "diffusers.h"
#include "families.h"

namespace rotary::files {

// Finds the rows of the file and reads a model's row when it is first asked for: the whole file would take three
// milliseconds of every start. Any number of threads may ask. text must be JSON that parse_json takes, and outlive
// this. What is wrong with a row throws INTERNAL: "[models] data/models.json: models.llama.shape has no field
// head_count".
class ModelTable {
 public:
  explicit ModelTable(std::string_view text);

  const Family* find(std::string_view model_type) const;  // nullptr: no such row
  std::optional<PositionFacts> find_positions(std::string_view model_type) const;
  std::vector<std::string_view> types_with_positions() const;
  Counted counted() const;

  std::vector<std::string_view> types;  // of models, then of remote_models
  std::vector<Child> children;
  std::vector<Misnamed> misnamed;
  std::vector<GgufArchitecture> architectures;
  std::vector<Refusal> refused;
  std::vector<DiffusersRope> diffusers;
  std::vector<std::string_view> our_names, without_rope;

 private:
  struct Row {
    std::string_view section, text;
    mutable std::atomic<const Family*> family = nullptr;
    Row(std::string_view in, std::string_view json) : section(in), text(json) {}
    ~Row() { delete family.load(); }
  };

  void add_section(std::string_view name, std::string_view section);

  std::map<std::string_view, Row> rows_;
  std::string_view counted_ = "{}", positions_ = "{}";  // sections, read when they are asked for
};

}  // namespace rotary::files
