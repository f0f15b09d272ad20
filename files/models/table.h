// Reads files/models/models.json. For table.cpp and its test; everything else asks families.h.
#pragma once

#include <any>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "text/json.h"

namespace rotary::files {

// Finds the rows of the file and reads a row when it is first asked for: the whole file would take three milliseconds
// of every start. Any number of threads may ask. text must be JSON that parse_json takes, laid out as
// files/models/sweep/table.py does it (a section begins a line, a row of a section begins one after two blanks), and
// outlive this. What is wrong with a row throws INTERNAL: "[models] files/models/models.json: models.llama.shape has no
// field head_count".
class ModelTable {
 public:
  explicit ModelTable(std::string_view text);

  std::vector<std::string_view> names(std::string_view section) const;  // the names of its rows
  // T: Family, DiffusersRope, GgufArchitecture, PositionFacts, std::string_view, or the vector of a list, whose only
  // row has the name "". nullptr: no such row.
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
