// What the program says of files by their endings, and of the config that an error is in.
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "run.h"

namespace rotary::cli_tests {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Strings = std::vector<std::string>;

class CliFormats : public Cli {
 protected:
  Tensor row() const { return make_tensor<float>("q", ElementType::f32, {1, 1, 4}, {1, 2, 3, 4}); }
  void expect_said(const Strings& command, const std::string& code, const std::string& sentence) const {
    expect_error(command, code);
    const std::string said = run(command).err;
    EXPECT_NE(said.find(sentence), std::string::npos) << said;
  }
};

TEST_F(CliFormats, inspect_tells_a_large_npy_from_its_header) {
  write_npy(path("large.npy"), make_tensor<float>("", ElementType::f32, {1}, {1}));
  std::string text = read_text(path("large.npy"));
  const std::size_t shape = text.find("(1,)");
  ASSERT_NE(shape, std::string::npos);
  text.replace(shape, 20, "(17179869184,), }   ");  // 64 GiB: no machine of the tests holds them
  write_text(path("large.npy"), text.substr(0, text.size() - 4));
  fs::resize_file(path("large.npy"), text.size() - 4 + (std::uintmax_t{1} << 36));
  const Json json = Json::parse(expect_success({"inspect", path("large.npy"), "--json"}).out);
  EXPECT_EQ(json.at("tensors"), Json::parse(R"([{"name": "", "dtype": "F32", "shape": [17179869184]}])"));
}

TEST_F(CliFormats, table_refuses_an_output_of_another_ending) {
  for (const char* name : {"t.npz", "t.pt", "t", "-", "t.NPY"}) {
    expect_said({"table", small_llama(), "--positions", "0:4", "--output", path(name)}, "FORMAT",
                "must end in .safetensors or .npy");
    EXPECT_FALSE(fs::exists(path(name))) << name;
  }
  expect_said({"table", small_llama(), "--positions", "0:4", "--output", path("t.npy")}, "FORMAT", "two tensors");
}

TEST_F(CliFormats, apply_and_inspect_say_how_other_files_are_converted) {
  const Strings npz = {"apply", small_llama(), "--input", path("q.npz"), "--output", path("r.safetensors")};
  write_text(path("q.npz"), "PK\x03\x04");
  write_text(path("q.pt"), std::string("PK\0\0", 4));
  expect_said(npz, "FORMAT", "import numpy, safetensors.numpy as s; s.save_file(dict(numpy.load(");
  expect_said({"inspect", path("q.npz")}, "FORMAT", "safetensors.numpy");
  expect_said({"inspect", path("q.pt")}, "FORMAT", "import torch, safetensors.torch as s; s.save_file(torch.load(");
  expect_said({"inspect", "--head-dim", "4", "--pairing", "half", "--inv-freq", path("q.pt")}, "FORMAT",
              "safetensors.torch");
  write_tensors("q.safetensors", {row()});
  expect_said({"apply", small_llama(), "--input", path("q.safetensors"), "--output", path("r.npz")}, "FORMAT",
              "must end in .safetensors or .npy");
  EXPECT_FALSE(fs::exists(path("r.npz")));
  write_npy(path("q.npy"), row());
  expect_said({"apply", small_llama(), "--input", path("q.npy"), "--output", path("r.safetensors")}, "FORMAT",
              "must be of one format");
}

TEST_F(CliFormats, an_error_in_a_config_names_the_file) {
  const std::string config = write_config(
      "heads.json", R"("model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": "32")");
  expect_said({"inspect", config}, "CONFIG_VALUE", "[read_config] " + config + ": num_attention_heads must be");
  write_text(path("broken.json"), "{");
  expect_said({"inspect", path("broken.json")}, "JSON", path("broken.json") + ": ");
}

TEST_F(CliFormats, the_pairing_is_asked_for_where_it_helps) {
  const std::string sizes = R"("hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "model_type": )";
  const std::string unknown = write_config("unknown.json", sizes + "\"nobody_knows\"");
  expect_said({"inspect", unknown}, "MODEL_TYPE",
              "no pairing is given: pass --pairing half, interleaved or interleaved_to_half");
  const std::string diffusers = write_config("flux.json", R"("_class_name": "FluxTransformer2DModel")");
  expect_error({"inspect", diffusers}, "MODEL_TYPE");
  EXPECT_EQ(run({"inspect", diffusers}).err.find("--pairing"), std::string::npos);
}

}  // namespace
}  // namespace rotary::cli_tests
