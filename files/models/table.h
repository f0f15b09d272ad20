// Reads files/models/models.json. For table.cpp and its test; everything else asks families.h.
#pragma once

#include <any>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "text/json.h"

namespace rotary::files {

// Finds the rows of the file and reads a row when it is first requested: reading the whole file would add three
// milliseconds to every start. Any number of threads may call it. text must be JSON for parse_json, in the layout of
// files/models/sweep/table.py (a section begins a line, a row of a section begins a line after two blanks), and must
// outlive this. A wrong row throws INTERNAL: "[models] files/models/models.json: models.llama.shape has no
// field head_count".
class ModelTable {
 public:
  explicit ModelTable(std::string_view text);

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

  std::map<std::string_view, std::map<std::string_view, Row>> sections_;
  mutable std::recursive_mutex mutex_;
};

}  // namespace rotary::files
