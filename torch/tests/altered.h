// For tests of checkpoints: the comparison with transformers' answers, and a copy of a golden folder whose config and
// tensors a test may change.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "files/tests/file_helpers.h"
#include "torch/tests/tensors.h"

namespace rotary_torch {

// Expects the answers that make_parity.py wrote, without a mask and with their mask.
inline void expect_answers(LoadedDecoder& loaded, const Tensors& answers) {
  const at::NoGradGuard no_grad;
  EXPECT_EQ(loaded.has_head, answers.contains("logits"));
  EXPECT_TRUE(loaded.warnings.empty());
  for (const std::string prefix : {"", "left_"}) {
    const at::Tensor mask = prefix.empty() ? at::Tensor() : answers.at("left");
    const at::Tensor hidden = loaded.model->hidden(answers.at("ids"), mask);
    EXPECT_LT(difference(hidden, answers.at(prefix + "hidden")), 2e-5) << prefix;
    if (!loaded.has_head) continue;
    EXPECT_LT(difference(loaded.model->logits(hidden), answers.at(prefix + "logits")), 2e-5) << prefix;
  }
}

// load: the function that loads a folder.
template <auto load>
class Altered {
 public:
  using Json = nlohmann::json;
  explicit Altered(const std::filesystem::path& golden) {
    for (const auto& entry : std::filesystem::directory_iterator(golden)) {
      std::filesystem::copy_file(entry.path(), folder_ / entry.path().filename().string());
    }
  }
  Altered& config(const std::function<void(Json&)>& change) { return text("config.json", change); }
  Altered& index(const std::function<void(Json&)>& change) { return text("model.safetensors.index.json", change); }
  Altered& tensors(const std::function<void(Tensors&)>& change) {
    Tensors all = read_all(folder_ / "model.safetensors");
    change(all);
    write_all(folder_ / "model.safetensors", all);
    return *this;
  }
  void refused(const std::string& code, const std::string& words) const {
    rotary::test::expect_error(code, words, [&] { loaded(); });
  }
  auto loaded() const { return load(folder_.path()); }
  std::filesystem::path operator/(const char* name) const { return folder_ / name; }

 private:
  Altered& text(const char* file, const std::function<void(Json&)>& change) {
    Json value = Json::parse(rotary::test::read_text(folder_ / file));
    change(value);
    rotary::test::write_text(folder_ / file, value.dump());
    return *this;
  }
  rotary::test::ScratchFolder folder_;
};

}  // namespace rotary_torch
