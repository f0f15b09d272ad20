// Runs the rotary program on files in a scratch folder.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "files/tests/file_helpers.h"

namespace rotary::cli_tests {

using Json = nlohmann::ordered_json;
using Shape = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

inline const std::string golden_folder = ROTARY_SOURCE_DIR "/files/tests/golden/", configs = golden_folder + "configs/";

inline Strings operator+(Strings words, const Strings& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline Strings lines_of(const std::string& text) {
  Strings lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

struct Result {
  int exit = -1;
  std::string out;
  std::string err;
};

using test::make_tensor;
using test::read_text;
using test::values_of;
using test::write_text;

// `count` values that look like data: of both signs, neither round nor small integers.
inline std::vector<float> some_values(std::size_t count, unsigned seed = 1) {
  std::vector<float> values(count);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-30F;
  }
  return values;
}

class Cli : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // environment: "NAME=value", or nothing.
  Result run(const Strings& words, const std::string& environment = "") const {
    std::string command = "env -u COLUMNS " + environment + " '" ROTARY_PROGRAM "'";
    for (const std::string& word : words) command += " '" + word + "'";
    command += " 2>'" + path("stderr") + "'";
    Result result;
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return result;
    char buffer[4096];
    for (std::size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) result.out.append(buffer, got);
    const int status = pclose(pipe);
    result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.err = read_text(path("stderr"));
    return result;
  }

  // Expects that the run fails with this code, in the promised form, and prints nothing else.
  void expect_error(const Strings& words, const std::string& code) const {
    const Result result = run(words);
    EXPECT_EQ(result.exit, 1) << result.out << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(std::regex_match(result.err, std::regex("error: " + code + ": [^\n]+\n"))) << result.err;
  }
  Result expect_success(const Strings& words) const {
    Result result = run(words);
    EXPECT_EQ(result.exit, 0) << result.err;
    EXPECT_EQ(result.err, "");
    return result;
  }

  Json run_json(const Strings& words) const { return Json::parse(expect_success(words + Strings{"--json"}).out); }

  std::string write_config(const std::string& name, const std::string& members) const {
    write_text(path(name), "{" + members + "}");
    return path(name);
  }
  // A Llama of 4 layers, 2 heads and 1 kv head of 4 elements.
  std::string small_llama(const std::string& more = "", const std::string& base = "100.0") const {
    return write_config(
        "config.json", R"("model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,)"
                       R"("num_hidden_layers": 4, "max_position_embeddings": 64, "rope_theta": )" +
                           base + more);
  }

  std::string write_tensors(const std::string& name, const std::vector<Tensor>& tensors,
                            const std::map<std::string, std::string>& metadata = {}) const {
    write_safetensors(path(name), test::pointers_to(tensors), metadata);
    return path(name);
  }
  Tensor read_tensor(const std::string& file, const std::string& name) const {
    return SafetensorsFile(path(file)).read(name);
  }

 private:
  test::ScratchFolder folder_;
};

}  // namespace rotary::cli_tests
