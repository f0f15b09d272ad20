// Configs to plan from, and what was planned.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"
#include "rotary/extend.h"

namespace rotary::extend_tests {

using Json = nlohmann::ordered_json;

inline std::string golden(const std::string& name) {
  return test::read_text(std::string(ROTARY_SOURCE_DIR "/files/tests/golden/configs/") + name + ".json");
}

inline extend::Request asked(const std::string& config, std::int64_t context, const std::string& method = "") {
  extend::Request request;
  request.model = parse_config(config);
  request.config = config;
  request.context = context;
  request.method = method;
  return request;
}

inline extend::Plan planned(const std::string& config, std::int64_t context, const std::string& method = "") {
  return extend::plan(asked(config, context, method));
}

inline const extend::MethodPlan& method_of(const extend::Plan& plan, const std::string& method) {
  const auto found = std::find_if(plan.methods.begin(), plan.methods.end(),
                                  [&](const extend::MethodPlan& one) { return one.method == method; });
  EXPECT_NE(found, plan.methods.end()) << method;
  return found == plan.methods.end() ? plan.methods.front() : *found;
}

inline const extend::MethodPlan& recommended(const extend::Plan& plan) { return method_of(plan, plan.recommended); }

inline bool any_has(const std::vector<std::string>& sentences, const std::string& words) {
  return std::any_of(sentences.begin(), sentences.end(),
                     [&](const std::string& sentence) { return sentence.find(words) != std::string::npos; });
}

// A Llama of 2 layers with heads of 64; more: further members, each behind a comma.
inline std::string small(const std::string& more, const std::string& type = "llama", int length = 4096) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2,)" +
         R"( "max_position_embeddings": )" + std::to_string(length) + more + "}";
}

}  // namespace rotary::extend_tests
