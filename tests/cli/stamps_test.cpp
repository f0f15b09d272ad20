// rotary apply: what the output's metadata says of the rotation, and what is said of a second one.
#include <map>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Strings = std::vector<std::string>;

class Stamps : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write_tensors("a.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 2, 2, 4}, some_values(16))},
                  {{"format", "pt"}, {"rotary.9.", "not a stamp's"}, {"rotary.x", "nor this"}});
  }
  Result apply(const std::string& from, const std::string& to, const Strings& more = {}) const {
    Strings all = {"apply", small_llama(yarn_), "--input", path(from), "--output", path(to)};
    all.insert(all.end(), more.begin(), more.end());
    Result result = run(all);
    EXPECT_EQ(result.exit, 0) << result.err;
    return result;
  }
  std::map<std::string, std::string> metadata(const std::string& file) const {
    return SafetensorsFile(path(file)).metadata();
  }

  std::string yarn_;
};

TEST_F(Stamps, say_what_was_done) {
  yarn_ = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})";
  EXPECT_EQ(apply("a.safetensors", "b.safetensors", {"--positions", "+16", "--angles", "float32"}).err, "");
  const std::map<std::string, std::string> said = metadata("b.safetensors");
  EXPECT_EQ(said.at("format"), "pt");
  EXPECT_EQ(said.at("rotary.x"), "nor this");
  EXPECT_EQ(said.at("rotary.1.config"), path("config.json"));
  EXPECT_EQ(said.at("rotary.1.scaling"), "yarn");
  EXPECT_EQ(said.at("rotary.1.scaling.factor"), "4");
  EXPECT_EQ(said.at("rotary.1.scaling.trained_length"), "16");
  EXPECT_EQ(said.at("rotary.1.positions"), "16:");
  EXPECT_EQ(said.at("rotary.1.direction"), "forward");
  EXPECT_EQ(said.at("rotary.1.layout"), "bthd");
  EXPECT_EQ(said.at("rotary.1.angles"), "float32");
  EXPECT_EQ(said.at("rotary.1.tensors"), "[\"q\"]");
  const Result again = apply("b.safetensors", "b.safetensors", {"--backward"});
  EXPECT_EQ(again.err, "warning: the input's metadata says that rotary apply has rotated q before, forward by " +
                           path("config.json") + " at positions 16:; this rotation comes on top of it\n");
  EXPECT_EQ(metadata("b.safetensors").at("rotary.2.direction"), "backward");
  EXPECT_EQ(metadata("b.safetensors").at("rotary.1.direction"), "forward");
}

TEST_F(Stamps, tell_of_a_second_rotation) {
  EXPECT_EQ(apply("a.safetensors", "b.safetensors").err, "");
  const Result again = apply("b.safetensors", "c.safetensors");
  EXPECT_NE(again.err.find("has rotated q before, forward by"), std::string::npos) << again.err;
  EXPECT_NE(again.out.find("wrote"), std::string::npos);
}

TEST_F(Stamps, go_with_the_rotation_that_undoes_theirs) {
  apply("a.safetensors", "b.safetensors");
  const Result back = apply("b.safetensors", "c.safetensors", {"--backward"});
  EXPECT_EQ(back.err, "");
  EXPECT_NE(back.out.find("note: this undoes the rotation that the input's metadata tells of\n"), std::string::npos);
  EXPECT_EQ(metadata("c.safetensors"), metadata("a.safetensors"));
  EXPECT_NE(apply("b.safetensors", "c.safetensors", {"--backward", "--positions", "1:"}).err, "");
  yarn_ = R"(, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16})";
  apply("a.safetensors", "b.safetensors");
  EXPECT_NE(apply("b.safetensors", "c.safetensors", {"--backward"}).err, "") << "the attention factor stays, squared";
}

TEST_F(Stamps, of_other_tensors_and_other_blocks_say_nothing) {
  const Tensor q = make_tensor<float>("q", ElementType::f32, {1, 2, 2, 4}, some_values(16));
  Tensor k = q;
  k.name = "k";
  write_tensors("a.safetensors", {q, k});
  apply("a.safetensors", "b.safetensors", {"--tensor", "q", "--layout", "bthd"});
  EXPECT_EQ(apply("b.safetensors", "c.safetensors", {"--tensor", "k", "--layout", "bthd"}).err, "");
  EXPECT_EQ(metadata("c.safetensors").at("rotary.2.tensors"), "[\"k\"]");
  const auto block = [&](const std::string& from, const std::string& first) {
    return run({"apply", "--base", "100", "--pairing", "half", "--rotary-dim", "2", "--first", first, "--input",
                path(from), "--output", path("d.safetensors")})
        .err;
  };
  EXPECT_EQ(block("a.safetensors", "0"), "");
  EXPECT_EQ(block("d.safetensors", "2"), "");
  EXPECT_NE(block("d.safetensors", "1"), "");
}

TEST_F(Stamps, that_are_broken_do_no_harm) {
  const Tensor q = make_tensor<float>("q", ElementType::f32, {1, 2, 2, 4}, some_values(16));
  write_tensors("a.safetensors", {q},
                {{"rotary.1.tensors", "{"},
                 {"rotary.99999999999999999999.tensors", "x"},
                 {"rotary.3.tensors", "[1]"},
                 {"rotary.7.tensors", "[\"q\"]"},
                 {"rotary.7.first", "x"},
                 {"rotary.7.rotary_dim", "4"}});
  EXPECT_NE(apply("a.safetensors", "b.safetensors").err.find("has rotated q before"), std::string::npos);
  EXPECT_EQ(metadata("b.safetensors").at("rotary.4.direction"), "forward");
}

TEST_F(Stamps, are_shown_by_inspect) {
  apply("a.safetensors", "b.safetensors");
  const std::string text = expect_success({"inspect", path("b.safetensors")}).out;
  EXPECT_NE(text.find("\nmetadata\n  format "), std::string::npos) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\n  rotary.1.direction +forward\n"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\n  rotary.1.positions +0:\n"))) << text;
}

}  // namespace
}  // namespace rotary::cli_tests
