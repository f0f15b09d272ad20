// Findings: their table, their sentences and their JSON.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rotary/diagnose.h"
#include "text/io.h"
#include "text/json.h"

namespace rotary::diagnose {

Finding finding(Cause, std::vector<Number> numbers = {}, Where where = {});  // has the verdict of its cause
// The finding with the residual that it leaves, beside the residual of the config's rope.
Finding with_residuals(Finding, double found, double asked);
Number residual(double);
// A count as the double that a Number holds.
template <class Count>
double number(Count count) {
  return static_cast<double>(count);
}

// Whether it is a thing that differs: not a remark on others, nor what is right.
bool is_fault(const Finding&);
std::int64_t count_faults(const std::vector<Finding>&);
bool is_about_rest(const Finding&);  // it says how all is that is in no part

// One sentence of what was found of tensors of these names: "q and k are rotated ...; and they are multiplied ...".
std::string render(const std::vector<std::string>& names, const std::vector<Finding>&);
// The sentence of one finding, without the tensor's name.
std::string render(const Finding&);
// A template of the table, filled with the finding's numbers.
std::string fill(const char* sentence, const Finding&);

nlohmann::ordered_json finding_json(const Finding&);
// {"offset": n, "step": s} for positions that rise evenly, else a list; rows of lists where the rows differ.
nlohmann::ordered_json positions_json(const std::vector<std::vector<double>>& rows);
nlohmann::ordered_json fields_json(const Scaling&);  // every value by its name; null: not given

}  // namespace rotary::diagnose
