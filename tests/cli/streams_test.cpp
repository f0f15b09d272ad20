// rotary apply and table: standard input and output, pipes, and files that are not what their name says.
#include <filesystem>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Strings = std::vector<std::string>;

class Streams : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    q_ = make_tensor<float>("q", ElementType::f32, {1, 2, 2, 4}, some_values(16));
    write_tensors("q.safetensors", {q_}, {{"format", "pt"}});
    write_npy(path("q.npy"), q_);
    expect_success(words(path("q.safetensors"), path("r.safetensors")));
    expect_success(words(path("q.npy"), path("r.npy")));
  }
  Strings words(const std::string& from, const std::string& to) const {
    return {"apply", "--base", "100", "--pairing", "half", "--input", from, "--output", to};
  }
  std::string from(const std::string& name) const { return "cat '" + path(name) + "' | "; }

  Tensor q_;
};

TEST_F(Streams, tensors_come_in_and_go_out) {
  for (const std::string ending : {"safetensors", "npy"}) {
    const Result both = run(words("-", "-"), from("q." + ending));
    EXPECT_EQ(both.exit, 0) << both.err;
    EXPECT_EQ(both.out, read_text(path("r." + ending)));
    EXPECT_NE(both.err.find("F32 [1, 2, 2, 4]: batch 1, tokens 2, heads 2\nwrote standard output\n"), std::string::npos)
        << both.err;
    const Result in = run(words("-", path("s." + ending)), from("q." + ending));
    EXPECT_EQ(in.exit, 0) << in.err;
    EXPECT_EQ(read_text(path("s." + ending)), read_text(path("r." + ending)));
    EXPECT_EQ(run(words("/dev/stdin", "-"), from("q." + ending)).out, read_text(path("r." + ending)));
    EXPECT_EQ(run(words(path("q." + ending), "-")).out, read_text(path("r." + ending)));
  }
  EXPECT_FALSE(std::filesystem::exists("-"));
}

TEST_F(Streams, a_redirected_file_is_standard_input) {
  const std::string command = "'" ROTARY_PROGRAM "' apply --base 100 --pairing half --input /dev/stdin --output '" +
                              path("s.safetensors") + "' < '" + path("q.safetensors") + "' > '" + path("out") + "'";
  EXPECT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_text(path("s.safetensors")), read_text(path("r.safetensors")));
}

TEST_F(Streams, inspect_lists_the_tensors_of_one) {
  for (const std::string name : {"r.safetensors", "r.npy"}) {
    for (const char* stream : {"-", "/dev/stdin"}) {
      const Result result = run({"inspect", stream}, from(name));
      EXPECT_EQ(result.exit, 0) << result.err;
      EXPECT_EQ(result.out, expect_success({"inspect", path(name)}).out);
      EXPECT_EQ(run({"inspect", stream, "--json"}, from(name)).out,
                expect_success({"inspect", path(name), "--json"}).out);
    }
  }
}

TEST_F(Streams, standard_input_is_one) { expect_usage({"apply", "-", "--input", "-", "--output", "-"}); }

TEST_F(Streams, the_formats_must_agree) {
  expect_error(words("-", path("s.npy")), "FORMAT", from("q.safetensors"));
  expect_error(words("-", path("s.safetensors")), "FORMAT", from("q.npy"));
  EXPECT_FALSE(std::filesystem::exists(path("s.npy")));
}

TEST_F(Streams, an_error_prints_nothing_to_standard_output) {
  expect_error(words("-", "-"), "FORMAT", "printf '' | ");
  EXPECT_NE(run(words("-", "-"), "printf 'not tensors' | ").err.find("standard input: "), std::string::npos);
  write_tensors("v.safetensors", {make_tensor<float>("v", ElementType::f32, {1}, {1})});
  expect_error(words("-", "-"), "TENSOR", from("v.safetensors"));
}

TEST_F(Streams, the_name_of_a_descriptor_is_told_of_the_dash) {
  expect_error(words(path("q.safetensors"), "/dev/stdout"), "FORMAT");
  EXPECT_NE(run(words(path("q.safetensors"), "/dev/stdout")).err.find("say --output -"), std::string::npos);
}

TEST_F(Streams, a_table_goes_out) {
  Strings table = {"table", small_llama(), "--positions", "0:4", "--output", "-"};
  const Result out = run(table);
  EXPECT_EQ(out.exit, 0) << out.err;
  EXPECT_NE(out.err.find("wrote standard output: cos, sin f32 [4, 2]\n"), std::string::npos) << out.err;
  table.back() = path("t.safetensors");
  expect_success(table);
  EXPECT_EQ(out.out, read_text(path("t.safetensors")));
}

TEST_F(Streams, content_under_a_wrong_name_is_told) {
  const auto said = [&](const std::string& name, std::string_view text) {
    write_text(path(name), text);
    expect_error(words(path(name), path("s" + path(name).substr(path(name).rfind('.')))), "FORMAT");
    expect_error({"inspect", path(name)}, "FORMAT");
    return run({"inspect", path(name)}).err;
  };
  for (const std::string name : {"w.safetensors", "w.npy"}) {
    EXPECT_NE(said(name, "<!DOCTYPE html>\n<html></html>").find("an HTML page"), std::string::npos);
    EXPECT_NE(said(name, "\n <html lang=en>").find("an HTML page"), std::string::npos);
    EXPECT_NE(said(name, "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n").find("git lfs pull"),
              std::string::npos);
    EXPECT_NE(said(name, "PK\x03\x04 and what follows").find("a zip archive"), std::string::npos);
    EXPECT_NE(said(name, "{\"model_type\": \"llama\"}").find("a JSON text"), std::string::npos);
    EXPECT_NE(said(name, "GGUF\x03").find("a GGUF file"), std::string::npos);
    EXPECT_NE(said(name, "GGUF\x03").find(path(name)), std::string::npos) << "the file is named";
  }
  EXPECT_NE(said("w.safetensors", read_text(path("q.npy"))).find("; the file is an .npy"), std::string::npos);
  EXPECT_NE(said("w.npy", read_text(path("q.safetensors"))).find("; it is a safetensors file"), std::string::npos);
}

}  // namespace
}  // namespace rotary::cli_tests
