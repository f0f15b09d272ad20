// The folder around the weights: shards, indices, metadata, other files, and what is refused before anything is
// written.
#include <string>
#include <vector>

#include "files/text/json.h"
#include "folder.h"

namespace rotary::convert_tests {
namespace {

const std::string config =
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
  fs::path sharded(const std::string& name) const {
    const std::string first = "model-00001-of-00002.safetensors", second = "model-00002-of-00002.safetensors";
    make(name, config, layer(0), {{"format", "pt"}}, first);
    make(name, config, layer(1), {{"format", "pt"}, {"note", "an \"unusual\" one"}}, second);
    std::string map;
    for (const auto& [index, file] : {std::pair(0, first), {1, second}}) {
      for (const Tensor& tensor : layer(index))
        map += (map.empty() ? "" : ",\n") + ("    \"" + tensor.name) + "\": \"" + file + "\"";
    }
    write_text(path(name) / "model.safetensors.index.json",
               "{\n  \"metadata\": {\"total_size\": 8192},\n  \"weight_map\": {\n" + map + "\n  }\n}\n");
    return path(name);
  }

  void expect_refused(const fs::path& folder, const std::string& code, const std::string& words,
                      Pairing to = Pairing::interleaved) const {
    expect_error(code, words, [&] { convert(folder, to, path("refused")); });
    EXPECT_FALSE(fs::exists(path("refused")));
    for (const auto& entry : fs::directory_iterator(path("").parent_path()))
      EXPECT_EQ(entry.path().string().find("partial"), std::string::npos) << entry;
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
  expect_refused(path("s-2"), "PAIRING", "is interleaved already");
  convert(path("s-2"), Pairing::half, path("s-3"));
  expect_same_files(source, path("s-3"));
}

TEST_F(Folders, without_metadata_there_is_some_and_then_none) {
  const fs::path source = make("plain", config, both_layers(), {});
  convert(source, Pairing::interleaved, path("plain-2"));
  EXPECT_EQ(tensor_metadata(path("plain-2") / "model.safetensors").at("rotary.pairing"), "interleaved");
  convert(path("plain-2"), Pairing::half, path("plain-3"));
  expect_same_files(source, path("plain-3"));
}

TEST_F(Folders, metadata_without_entries_come_back) {
  const fs::path source = make("s", config, both_layers(), {});
  std::string text = read_text(source / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  for (const std::string empty : {R"("__metadata__":{},)", R"("__metadata__" : { },)"}) {
    const std::uint64_t longer = length + empty.size();
    std::string changed = text;
    changed.insert(9, empty);
    std::memcpy(changed.data(), &longer, 8);
    write_text(source / "model.safetensors", changed);
    fs::remove_all(path("s-2"));
    fs::remove_all(path("s-3"));
    convert(source, Pairing::interleaved, path("s-2"));
    convert(path("s-2"), Pairing::half, path("s-3"));
    expect_same_files(source, path("s-3"));
  }
}

TEST_F(Folders, a_stamp_that_no_conversion_wrote_is_refused) {
  const auto stamped = [this](const std::string& name, const std::string& key, const std::string& value) {
    return make(name, config, both_layers(),
                {{"rotary.pairing", "interleaved"}, {"rotary.pairing_before", "half"}, {key, value}});
  };
  int count = 0;
  for (const char* text : {"nonsense]", R"({"a":"b"},"evil":{})", "{", "", "{} "})
    expect_refused(stamped("m" + std::to_string(count++), "rotary.metadata_before", text), "FORMAT",
                   "rotary.metadata_before must be an object without entries", Pairing::half);
  expect_refused(stamped("b", "rotary.header_blanks", "-1"), "FORMAT", "must be a number of bytes", Pairing::half);
  expect_refused(make("p", config, both_layers(), {{"rotary.pairing", "neox"}}), "FORMAT", "half or interleaved");
}

TEST_F(Folders, a_header_that_another_writer_spaced_keeps_its_spaces) {
  const fs::path source = make("spaced", config, both_layers());
  std::string file = read_text(source / "model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  std::string header = file.substr(8, length);
  header.replace(header.find("\"dtype\":"), 8, "\"dtype\" :  ");
  header.insert(header.find('}'), "\n ");
  header.erase(header.find_last_not_of(' ') + 1);
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t now = header.size();
  write_text(source / "model.safetensors",
             std::string(reinterpret_cast<const char*>(&now), 8) + header + file.substr(8 + length));
  convert(source, Pairing::interleaved, path("spaced-2"));
  convert(path("spaced-2"), Pairing::half, path("spaced-3"));
  expect_same_files(source, path("spaced-3"));
}

TEST_F(Folders, a_header_without_blanks_or_with_many_comes_back) {
  for (const std::size_t blanks : {0U, 3U, 64U, 4096U}) {
    const std::string name = "blanks" + std::to_string(blanks);
    const fs::path source = make(name, config, both_layers(), {{"format", std::string(blanks % 5, 'x')}});
    const std::string file = read_text(source / "model.safetensors");
    std::uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    std::string header = file.substr(8, length);
    header.erase(header.find_last_not_of(' ') + 1);
    header.append(blanks, ' ');
    const std::uint64_t now = header.size();
    write_text(source / "model.safetensors",
               std::string(reinterpret_cast<const char*>(&now), 8) + header + file.substr(8 + length));
    convert(source, Pairing::interleaved, path(name + "-2"));
    convert(path(name + "-2"), Pairing::half, path(name + "-3"));
    expect_same_files(source, path(name + "-3"));
  }
}

TEST_F(Folders, subfolders_without_weights_are_copied) {
  const fs::path source = make("pooled", config, both_layers());
  fs::create_directories(source / "1_Pooling");
  write_text(source / "1_Pooling" / "config.json", "{}");
  fs::create_directories(source / "onnx");
  write_text(source / "onnx" / "model.onnx", "x");
  convert(source, Pairing::interleaved, path("pooled-2"));
  EXPECT_EQ(read_text(path("pooled-2") / "1_Pooling" / "config.json"), "{}");
  EXPECT_FALSE(fs::exists(path("pooled-2") / "onnx"));
}

TEST_F(Folders, empty_folders_modules_and_permissions_to_run_are_kept) {
  const fs::path source = make("s", config, both_layers());
  fs::create_directories(source / "empty" / "inside");
  for (const char* module : {"2_Dense", "3_Other", "2024_backup"}) {
    fs::create_directories(source / module);
    write_text(source / module / "model.safetensors", "x");
  }
  write_text(source / "modules.json",  // sentence-transformers: what is behind the model is in no pairing
             R"([{"path": "", "type": "sentence_transformers.models.Transformer"},)"
             R"( {"path": "2_Dense", "type": "sentence_transformers.models.Dense"},)"
             R"( {"path": "3_Other", "type": "sentence_transformers.models.Transformer"}, 7])");
  write_text(source / "run.sh", "true");
  fs::permissions(source / "run.sh", fs::perms::owner_exec, fs::perm_options::add);
  convert(source, Pairing::interleaved, path("s-2"));
  EXPECT_TRUE(fs::is_directory(path("s-2") / "empty" / "inside"));
  EXPECT_EQ(read_text(path("s-2") / "2_Dense" / "model.safetensors"), "x");
  EXPECT_FALSE(fs::exists(path("s-2") / "3_Other"));
  EXPECT_FALSE(fs::exists(path("s-2") / "2024_backup"));
  EXPECT_NE(fs::status(path("s-2") / "run.sh").permissions() & fs::perms::owner_exec, fs::perms::none);
  EXPECT_EQ(fs::status(path("s-2") / "config.json").permissions() & fs::perms::owner_exec, fs::perms::none);
}

TEST_F(Folders, only_the_pairing_that_the_code_does_not_read_has_a_note) {
  const fs::path source = make("noted", config, both_layers());
  const convert::Plan there = convert::make_plan(source, Pairing::interleaved, std::nullopt);
  ASSERT_EQ(there.notes.size(), 1U);
  EXPECT_NE(there.notes[0].find("takes half weights"), std::string::npos) << there.notes[0];
  convert(source, Pairing::interleaved, path("noted-2"));
  EXPECT_TRUE(convert::make_plan(path("noted-2"), Pairing::half, std::nullopt).notes.empty());
  EXPECT_TRUE(convert::make_plan(source, Pairing::half, Pairing::interleaved).notes.empty());
}

TEST_F(Folders, the_pairing_of_the_metadata_counts_for_commands_that_take_the_folder) {
  make("one", config, both_layers());
  convert(path("one"), Pairing::interleaved, path("one-2"));
  Model model = read_config(path("one-2"));
  EXPECT_EQ(model.ropes.front().rope.pairing, Pairing::half);
  apply_weights(model, path("one-2"));
  EXPECT_EQ(model.ropes.front().rope.pairing, Pairing::interleaved);
}

TEST_F(Folders, other_forms_of_the_weights_are_left_out) {
  const fs::path source = make("many", config, both_layers());
  for (const char* name : {"pytorch_model.bin", "consolidated.safetensors", "model.gguf"})
    write_text(source / name, "x");
  fs::create_directories(source / "original");
  write_text(source / "original" / "consolidated.00.pth", "x");
  convert(source, Pairing::interleaved, path("many-2"));
  for (const char* name : {"pytorch_model.bin", "consolidated.safetensors", "model.gguf", "original"})
    EXPECT_FALSE(fs::exists(path("many-2") / name)) << name;
  EXPECT_EQ(convert::make_plan(source, Pairing::interleaved, std::nullopt).folder.left_out,
            (std::vector<std::string>{"consolidated.safetensors", "model.gguf", "pytorch_model.bin", "original/"}));
}

TEST_F(Folders, an_empty_output_folder_may_be_there) {
  make("one", config, both_layers());
  fs::create_directories(path("empty"));
  convert(path("one"), Pairing::interleaved, path("empty"));
  EXPECT_TRUE(fs::exists(path("empty") / "model.safetensors"));
}

TEST_F(Folders, outputs_that_are_refused) {
  make("one", config, both_layers());
  fs::create_directories(path("full"));
  write_text(path("full") / "x", "x");
  const auto to = [&](const fs::path& output) {
    return [this, output] { convert(path("one"), Pairing::interleaved, output); };
  };
  expect_error("FILE", "holds files already", to(path("full")));
  expect_error("FILE", "another folder than the input", to(path("one")));
  expect_error("FILE", "another folder than the input", to(path("one") / "."));
  expect_error("FILE", "must not lie in the input", to(path("one") / "inside"));
  expect_error("FILE", "must be a new folder but is a file", to(path("full") / "x"));
  expect_error("FILE", "parent folder must be there", to(path("none") / "deep"));
}

TEST_F(Folders, a_failed_check_leaves_nothing) {
  const convert::Plan plan = convert::make_plan(make("one", config, both_layers()), Pairing::interleaved, std::nullopt);
  EXPECT_THROW(
      convert::write_folder(
          plan, path("out"), [](std::uint64_t) {}, [](const fs::path&) { throw Error(Code::CHECK, "[test] no"); }),
      Error);
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("one").parent_path()), {}), 1);
}

TEST_F(Folders, a_changed_weight_does_not_pass_verify) {
  const convert::Plan plan = convert::make_plan(make("one", config, both_layers()), Pairing::interleaved, std::nullopt);
  convert::write_folder(
      plan, path("out"), [](std::uint64_t) {},
      [&](const fs::path& folder) {
        std::string file = read_text(folder / "model.safetensors");
        file[file.size() - 16 * 32 * 2 - 1] =
            static_cast<char>(file[file.size() - 16 * 32 * 2 - 1] ^ 0x40);  // of the last q
        write_text(folder / "model.safetensors", file);
        const auto checks = convert::verify(plan, folder, nullptr);
        ASSERT_EQ(checks.size(), 2U);
        EXPECT_EQ(checks[0].largest_difference, 0);
        EXPECT_NE(checks[1].largest_difference, 0);
      });
}

TEST_F(Folders, refusals) {
  expect_refused(make("same", config, both_layers()), "PAIRING", "is half already", Pairing::half);
  std::string unknown = config;
  unknown.replace(unknown.find("llama"), 5, "frobnicator");
  expect_refused(make("unknown", unknown, both_layers()), "MODEL_TYPE", "frobnicator");
  const std::string dotted = R"({"model_type": "llava", "te.xt": {"model_type": "llama"}})";
  expect_refused(make("dotted", dotted, both_layers()), "ROPE", "\"te.xt\" is none");
  std::string heads = config;
  heads.replace(heads.find("\"num_key_value_heads\": 2"), 24, "\"num_key_value_heads\": 4");
  expect_refused(make("heads", heads, both_layers()), "SHAPE", "must have the 32 rows of the config's heads");
  expect_refused(make("few", config, layer(0)), "TENSOR", "layer 1 must have a projection of the queries");
  std::vector<Tensor> strange = both_layers();
  strange.push_back(some_tensor("model.layers.0.self_attn.k_conv.weight", ElementType::f32, {16, 4}));
  expect_refused(make("strange", config, strange), "TENSOR", "k_conv.weight");
  std::vector<Tensor> keys = {layer(0)[0], layer(0)[1], layer(1)[0], layer(1)[1]};
  convert(make("keys", config, keys), Pairing::interleaved, path("keys-2"));  // no values, as of a cut-out
  const std::string gemma = R"({"model_type": "gemma4_text", "hidden_size": 32, "num_attention_heads": 4, "head_dim": 8,
 "global_head_dim": 8, "num_key_value_heads": 2, "num_hidden_layers": 2, "attention_k_eq_v": false})";
  expect_refused(make("gemma", gemma, keys), "TENSOR", "must have an output projection");
  std::vector<Tensor> fused = {some_tensor("model.layers.0.self_attn.qkv_proj.weight", ElementType::bf16, {64, 32})};
  expect_refused(make("fused", config, fused), "MODEL_TYPE", "that of llama is not");
  expect_refused(make("bloom", R"({"model_type": "bloom"})", both_layers()), "ROPE", "bloom has none");
  expect_refused(path("nothing"), "FILE", "no such folder");
}

TEST_F(Folders, damaged_files_are_refused) {
  const fs::path cut = make("cut", config, both_layers());
  fs::resize_file(cut / "model.safetensors", fs::file_size(cut / "model.safetensors") - 10);
  expect_refused(cut, "FORMAT", "must end within the file's");
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
  const fs::path stamped = make("stamped", config, both_layers(), {{"rotary.pairing", "neither"}});
  expect_refused(stamped, "FORMAT", "rotary.pairing of model.safetensors must be half or interleaved");
  const fs::path dangling = make("dangling", config, both_layers());
  fs::create_symlink("nowhere", dangling / "tokenizer.json");
  expect_refused(dangling, "FILE", "tokenizer.json: cannot be opened");
}

}  // namespace
}  // namespace rotary::convert_tests
