// The folder around the weights: shards, indices, metadata, other files, and refusals before anything is written, those
// of cli/tests/transcripts/convert.txt apart.
#include <fstream>

#include "files/tests/full_disk.h"
#include "folder.h"

namespace rotary::convert_tests {
namespace {

const std::string two_layers =
    R"({"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_hidden_layers": 2, "max_position_embeddings": 64, "rope_theta": 10000.0})";

std::vector<Tensor> layer(int index) {
  const std::string at = "model.layers." + std::to_string(index) + ".self_attn.";
  return {some_tensor(at + "k_proj.weight", ElementType::bf16, {16, 32}),
          some_tensor(at + "q_proj.weight", ElementType::bf16, {32, 32}),
          some_tensor(at + "v_proj.weight", ElementType::bf16, {16, 32})};
}

std::vector<Tensor> both_layers() {
  std::vector<Tensor> tensors = layer(0);
  for (Tensor& tensor : layer(1)) tensors.push_back(tensor);
  return tensors;
}

class Folders : public Checkpoint {
 protected:
  ConvertRequest verified() const {
    return {.input = make("one", two_layers, both_layers()),
            .output = path("out"),
            .to = Pairing::interleaved,
            .verify = true};
  }
  fs::path sharded(const std::string& name) const {
    const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
    make(name, two_layers, layer(0), {{"format", "pt"}}, first);
    make(name, two_layers, layer(1), {{"format", "pt"}, {"note", "an \"unusual\" one"}}, second);
    std::string map;
    for (const auto& [index, file] : {std::pair(0, first), {1, second}}) {
      for (const Tensor& tensor : layer(index))
        map += (map.empty() ? "" : ",\n") + ("    \"" + tensor.name) + "\": \"" + file + "\"";
    }
    write_text(path(name) / "model.safetensors.index.json",
               "{\n  \"metadata\": {\"total_size\": 8192},\n  \"weight_map\": {\n" + map + "\n  }\n}\n");
    return path(name);
  }
};

TEST_F(Folders, shards_keep_their_names_their_index_and_their_metadata) {
  const fs::path source = sharded("s");
  write_text(source / "tokenizer.json", "{}");
  convert(source, Pairing::interleaved, path("s-2"));
  for (const char* same : {"model.safetensors.index.json", "config.json", "tokenizer.json"})
    EXPECT_EQ(read_text(source / same), read_text(path("s-2") / same));
  const auto metadata = tensor_metadata(path("s-2") / "model-00002-of-00002.safetensors");
  EXPECT_EQ(metadata.at("note"), "an \"unusual\" one");
  EXPECT_EQ(metadata.at("format"), "pt");
  EXPECT_EQ(metadata.at("rotary.pairing"), "interleaved");
  EXPECT_EQ(tensor_metadata(path("s-2") / "model-00001-of-00002.safetensors").at("rotary.pairing"), "interleaved");
  expect_refused(path("s-2"), "PAIRING", "is interleaved (GPT-J) already");
  convert(path("s-2"), Pairing::half, path("s-3"));
  for (const char* same : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"})
    expect_same_tensors(source / same, path("s-3") / same);
}

TEST_F(Folders, the_metadata_say_the_pairing) {
  make("said", two_layers, both_layers(), {{"rotary.pairing", "interleaved"}, {"format", "pt"}});
  there_and_back("said", Pairing::interleaved);
  expect_refused(make("p", two_layers, both_layers(), {{"rotary.pairing", "neox"}}), "FORMAT",
                 "rotary.pairing of model.safetensors must be half or interleaved");
  expect_error("PAIRING", "must be the pairing of the files' metadata", [&] {
    rotary::convert({.input = path("said"), .output = path("out"), .to = Pairing::half, .from = Pairing::half});
  });
}

TEST_F(Folders, other_files_are_copied_and_other_weights_left_out) {
  const fs::path source = make("s", two_layers, both_layers());
  for (const char* file : {"1_Pooling/config.json", "2_Dense/model.safetensors", "2024_backup/model.safetensors",
                           "3_Other/model.safetensors", "onnx/model.onnx", "original/consolidated.00.pth",
                           "pytorch_model.bin", "consolidated.safetensors", "model.gguf", "run.sh"}) {
    fs::create_directories((source / file).parent_path());
    write_text(source / file, "x");
  }
  write_text(source / "modules.json",  // sentence-transformers: what is behind the model is in no pairing
             R"([{"path": "", "type": "sentence_transformers.models.Transformer"},)"
             R"( {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},)"
             R"( {"path": "3_Other", "type": "sentence_transformers.models.Transformer"}, 7])");
  fs::create_directories(source / "empty" / "inside");
  fs::create_directory_symlink("..", source / "1_Pooling" / "circle");
  fs::create_symlink("nowhere", source / "1_Pooling" / "dangling");
  fs::permissions(source / "run.sh", fs::perms::owner_exec, fs::perm_options::add);
  const std::vector<std::string> left_out = convert(source, Pairing::interleaved, path("s-2")).left_out;
  EXPECT_EQ(left_out, (std::vector<std::string>{"consolidated.safetensors", "model.gguf", "pytorch_model.bin",
                                                "1_Pooling/circle/", "1_Pooling/dangling", "2024_backup/", "3_Other/",
                                                "onnx/", "original/"}));
  for (const std::string& name : left_out) EXPECT_FALSE(fs::exists(path("s-2") / name)) << name;
  for (const char* file : {"1_Pooling/config.json", "2_Dense/model.safetensors", "run.sh"})
    EXPECT_EQ(read_text(path("s-2") / file), "x");
  EXPECT_TRUE(fs::is_directory(path("s-2") / "empty" / "inside"));
  EXPECT_NE(fs::status(path("s-2") / "run.sh").permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_EQ(fs::status(path("s-2") / "config.json").permissions() & fs::perms::owner_exec, fs::perms::none);
}

// Native weights are interleaved, whatever the config.json beside them says of transformers' own.
TEST_F(Folders, native_weights_have_the_native_config) {
  const std::string at = "layers.0.attention.";
  const fs::path source = make("m", two_layers,
                               {some_tensor(at + "wq.weight", ElementType::bf16, {32, 32}),
                                some_tensor(at + "wk.weight", ElementType::bf16, {16, 32})},
                               {}, "consolidated.safetensors");
  write_text(source / "params.json", R"({"dim": 32, "n_layers": 1, "n_heads": 4, "n_kv_heads": 2, "head_dim": 8,
 "hidden_dim": 16, "vocab_size": 8, "norm_eps": 1e-6, "rope_theta": 10000.0})");
  expect_refused(source, "PAIRING", "is interleaved (GPT-J) already");
  const ConvertResult result = there_and_back("m", Pairing::interleaved);
  EXPECT_EQ(result.config_file, "params.json");
  ASSERT_EQ(result.notes.size(), 1U);
  EXPECT_TRUE(result.notes[0].starts_with("params.json of ")) << result.notes[0];
}

TEST_F(Folders, outputs_that_are_refused) {
  make("one", two_layers, both_layers());
  fs::create_directories(path("empty"));  // an empty output folder is accepted
  convert(path("one"), Pairing::interleaved, path("empty"));
  EXPECT_TRUE(fs::exists(path("empty") / "model.safetensors"));
  fs::create_directories(path("target"));  // and so is a link to one
  fs::create_directory_symlink("target", path("to target"));
  convert(path("one"), Pairing::interleaved, path("to target"));
  EXPECT_TRUE(fs::is_symlink(path("to target")));
  EXPECT_TRUE(fs::exists(path("target") / "model.safetensors"));
  write_text(path("file"), "x");
  const auto to = [&](const fs::path& output) {
    return [this, output] { convert(path("one"), Pairing::interleaved, output); };
  };
  expect_error("FILE", "another folder than the input", to(path("one") / "."));
  fs::create_directories(path("one") / "sub" / "deep");
  fs::create_directory_symlink(path("one") / "sub", path("link"));
  for (const fs::path& inside : {path("one") / "new", path("one") / "sub" / "new", path("one") / "sub" / "deep" / "new",
                                 path("link") / "new", path("one") / "sub" / ".." / "new"})
    expect_error("FILE", "must not lie in the input", to(inside));
  expect_error("FILE", "must be a new folder but is a file", to(path("file")));
  expect_error("FILE", "parent folder must be there", to(path("none") / "deep"));
}

TEST_F(Folders, a_killed_conversion_is_known_by_its_number) {
  ConvertRequest request = verified();
  for (const char* name : {"out.partial-notes", "out.partial-12a", "out.partial-", "out.partial-127"})
    fs::create_directories(path(name));
  std::vector<fs::path> found;
  request.left_behind = [&found](const fs::path& folder) { found.push_back(folder.filename()); };
  rotary::convert(request);
  EXPECT_EQ(found, std::vector<fs::path>{"out.partial-127"});
}

TEST_F(Folders, a_stopped_conversion_leaves_nothing) {
  ConvertRequest request = verified();
  for (const bool at_verify : {false, true}) {
    request.progress = [at_verify](bool verifying, std::uint64_t, std::uint64_t) {
      if (verifying == at_verify) throw Error(Code::CHECK, "test", "no");
    };
    expect_error("CHECK", "no", [&] { rotary::convert(request); });
    EXPECT_EQ(std::distance(fs::directory_iterator(path("one").parent_path()), {}), 1);
  }
}

// The inverse gives another byte, of the last q.
TEST_F(Folders, a_changed_weight_does_not_pass_verify) {
  ConvertRequest request = verified();
  bool changed = false;
  request.progress = [&](bool verifying, std::uint64_t done, std::uint64_t) {
    if (!verifying || done != 1 || changed) return;
    for (const auto& entry : fs::directory_iterator(path("one").parent_path())) {
      if (!entry.path().filename().string().starts_with("out.partial-")) continue;
      std::fstream file(entry.path() / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(fs::file_size(entry.path() / "model.safetensors")) - 16 * 32 * 2 - 1);
      file.put('\x55').put('\x66');
      changed = true;
    }
  };
  expect_error("CHECK", "must give its source's bytes when its change is undone but",
               [&] { rotary::convert(request); });
  EXPECT_TRUE(changed);
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(Folders, a_full_disk_is_told_of_the_file_that_was_to_be) {
  const fs::path source = make("one", two_layers, both_layers());
  const test::FullDisk full(3000);
  expect_error("FILE", "out/model.safetensors: cannot be written: File too large",
               [&] { convert(source, Pairing::interleaved, path("out")); });
}

TEST_F(Folders, damaged_files_are_refused) {
  const fs::path missing = sharded("missing");
  fs::remove(missing / "model-00002-of-00002.safetensors");
  expect_refused(missing, "FILE", "this one is missing");
  const fs::path other = sharded("other");
  fs::copy_file(other / "model-00001-of-00002.safetensors", other / "model-00002-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  expect_refused(other, "TENSOR", "is in model-00001-of-00002.safetensors and");
  const fs::path no_index = sharded("no_index");
  fs::remove(no_index / "model.safetensors.index.json");
  expect_refused(no_index, "FILE", "must have a model.safetensors.index.json");
  const fs::path half_done = sharded("half_done");
  convert(sharded("done"), Pairing::interleaved, path("done-2"));
  fs::copy_file(path("done-2") / "model-00001-of-00002.safetensors", half_done / "model-00001-of-00002.safetensors",
                fs::copy_options::overwrite_existing);
  expect_refused(half_done, "FORMAT",
                 "all files of a checkpoint must have been converted but rotary.pairing is \"interleaved\" in "
                 "model-00001-of-00002.safetensors and missing in model-00002-of-00002.safetensors");
  const fs::path dangling = make("dangling", two_layers, both_layers());
  fs::create_symlink("nowhere", dangling / "tokenizer.json");
  expect_refused(dangling, "FILE", "tokenizer.json: cannot be opened");
}

}  // namespace
}  // namespace rotary::convert_tests
