// What is known to go wrong with a plan.
#pragma once

#include <string>
#include <vector>

#include "situation.h"

namespace rotary::extend {

std::vector<std::string> warnings_of(const Situation&, const MethodPlan&);  // of one method
std::vector<std::string> warnings_of_all(const Situation&);                 // of any

}  // namespace rotary::extend
