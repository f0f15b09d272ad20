// Reads files/models/models.json, or a file in its place. For files/models and its tests; everything else asks
// families.h.
#pragma once

#include <any>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "text/json.h"

namespace rotary::files {

// Finds the rows of the file and reads a row when it is first requested: reading the whole file would add three
// milliseconds to every start. Any number of threads may call it. text must be JSON for parse_json, in the layout of
// files/models/sweep/table.py (a section begins a line, a row of a section begins a line after two blanks). A wrong row
// throws FORMAT: "[models] models.llama.shape.heads must be a count up to 1048576 but got -1".
class ModelTable {
 public:
  explicit ModelTable(std::string text);
  std::filesystem::path file = {};  // empty for a sheet that is built in

  const std::string& text() const noexcept { return text_; }
  void read_all() const;  // throws the error of a row, or of a section, that is wrong
  std::vector<std::string_view> names(std::string_view section) const;  // the names of a section's rows
  // The value of a row, or nullptr if there is no such row. T: Family, DiffusersRope, GgufArchitecture, PositionFacts,
  // std::string_view, or the vector of a list, whose only row has the name "".
  template <class T>
  const T* find(std::string_view section, std::string_view row = {}) const;

 private:
  struct Row {
    std::string_view text;
    mutable OrderedJson json = {};  // holds the strings of value
    mutable std::any value = {};    // empty until it is read
  };

  std::string text_;
  std::map<std::string_view, std::map<std::string_view, Row>> sections_;
  mutable std::recursive_mutex mutex_;
};

// ---- the sheet in use (sheet.cpp) ----

// The sheet that the functions of families.h read.
const ModelTable& table();

// Reads the text of a whole sheet or, if it has "extends": true, of rows laid over those of base. Every row is read and
// checked. Throws FORMAT, JSON.
std::unique_ptr<ModelTable> read_sheet(const std::string& text, const ModelTable& base = table());

}  // namespace rotary::files
