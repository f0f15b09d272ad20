// rotary inspect: the summary, several models, where a config may lie, and other scalings.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

const std::string configs = ROTARY_SOURCE_DIR "/tests/golden/configs/";

class Inspect : public Cli {
 protected:
  std::string text_of(Strings words) const {
    words.insert(words.begin(), "inspect");
    return expect_success(words).out;
  }
  Json json_of(Strings words) const {
    words.emplace_back("--json");
    return Json::parse(text_of(words));
  }
  Json rope_of(const Strings& words) const { return json_of(words).at("ropes").at(0); }
  // The run ends with this code, or with "usage", and a sentence that has the part.
  void expect_said(const Strings& words, const std::string& code, const std::string& part,
                   const std::string& environment = "") const {
    const Result result = run(words, environment);
    EXPECT_EQ(result.exit, code == "usage" ? 2 : 1);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with(code == "usage" ? "usage error: " : "error: " + code + ": ")) << result.err;
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
  // The text has each of these; an expression behind "~".
  void expect_text(const Strings& words, const Strings& parts) const {
    const std::string text = text_of(words);
    for (const std::string& part : parts) {
      const bool found = part.starts_with("~") ? std::regex_search(text, std::regex(part.substr(1)))
                                               : text.find(part) != std::string::npos;
      EXPECT_TRUE(found) << part << '\n' << text;
    }
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// ---- the summary ----

TEST_F(Inspect, shows_a_usual_model_on_one_screen) {
  for (const char* file : {"llama-3.1-8b.json", "qwen3-8b.json", "qwen2-7b.json", "phi-4.json"}) {
    const std::string text = text_of({configs + file});
    std::istringstream stream(text);
    int lines = 0;
    for (std::string line; std::getline(stream, line); ++lines) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_LE(lines, 24) << text;
    EXPECT_FALSE(contains(text, "\x1B")) << "no colours in a file";
    EXPECT_FALSE(contains(text, "inv_freq")) << "no pairs";
  }
}

TEST_F(Inspect, says_reach_lists_axes_layers_and_what_ropes_have_in_common) {
  const std::string phi = configs + "phi-3-mini-128k.json", dynamic = configs + "llama-7b-dynamic.json",
                    qwen = configs + "qwen2.5-vl-7b.json";
  const std::vector<std::pair<Strings, Strings>> cases = {
      {{configs + "qwen2.5-7b-yarn.json"},
       {"trained 32768, factor 4: to 131072\n", "0-23 kept, 24-39 blended, 40-63 stretched x 4\n"}},
      {{configs + "llama-3.1-8b.json"}, {"trained 8192, factor 8, context 131072\n"}},
      {{phi}, {"short list, lengths to 4096 "}},
      {{phi, "--length", "4097"}, {"long list, lengths above 4096 "}},
      {{dynamic}, {"as trained, lengths to 2048 "}},
      {{dynamic, "--length", "5000"}, {"stretched, lengths above 2048 "}},
      // 4096 / (2 pi * 1.1): the short list's turns end where the list does.
      {{phi, "--pairs"},
       {"turns over 4096 tokens: short list, lengths to 4096\n",
        "~\n +0 +0\\.909091 +6\\.9115 +592\\.64  stretched x 1\\.1\n"}},
      {{qwen},
       {"  axes              time 16, height 24, width 24 pairs, in runs\n",
        "  axes              height 20, width 20 pairs, in runs\n"}},
      {{configs + "qwen3-vl-8b.json"}, {"time 24, height 20, width 20 pairs, by turns\n"}},
      {{qwen, "--pairs"}, {"~\n +0  time +1 .*\n( .*\n)+ +63  width "}},
      {{configs + "llama-4-scout.json"}, {"  layers            0-2, 4-6, ..., 44-46 (36) "}},
      {{configs + "gemma-3-27b.json"},
       {"  as rope 0         heads, kv_heads, head_dim, rotary_dim, pairing, context\n"}}};
  for (const auto& [words, parts] : cases) expect_text(words, parts);
}

TEST_F(Inspect, json_has_reach_lengths_axes_wavelengths_and_stretches) {
  const std::string phi = configs + "phi-3-mini-128k.json", qwen = configs + "qwen3-8b.json";
  EXPECT_EQ(rope_of({configs + "qwen2.5-7b-yarn.json"}).at("reach"), 131072);
  EXPECT_TRUE(rope_of({qwen}).at("reach").is_null());
  EXPECT_EQ(rope_of({phi}).at("lengths"), Json({{"which", "short list"}, {"least", 1}, {"most", 4096}}));
  EXPECT_EQ(rope_of({phi, "--length", "9999"}).at("lengths"),
            Json({{"which", "long list"}, {"least", 4097}, {"most", nullptr}}));
  EXPECT_TRUE(rope_of({qwen}).at("lengths").is_null());
  EXPECT_EQ(rope_of({configs + "qwen2.5-vl-7b.json"}).at("axis_names"), Json({"time", "height", "width"}));
  EXPECT_EQ(rope_of({qwen}).at("axis_names"), Json::array());
  const Json rope = rope_of({small_llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4})")});
  EXPECT_EQ(rope.at("stretch"), Json({4.0, 4.0}));
  EXPECT_NEAR(rope.at("wavelength").at(0).get<double>(), 4 * 6.283185307179586, 1e-14);
  EXPECT_NEAR(rope.at("wavelength").at(1).get<double>(), 40 * 6.283185307179586, 1e-13);
}

TEST_F(Inspect, table_and_apply_say_the_list_too) {
  const std::string phi = configs + "phi-3-mini-128k.json";
  const auto line = [&](const std::string& positions) {
    return expect_success({"table", phi, "--positions", positions, "--output", path("t.safetensors")}).out;
  };
  EXPECT_TRUE(contains(line("0:16"), "longrope (short list, lengths to 4096), attention factor 1.190238071\n"));
  EXPECT_TRUE(contains(line("0:4097"), "longrope (long list, lengths above 4096), attention factor"));
}

TEST_F(Inspect, has_colours_in_a_terminal_unless_NO_COLOR_is_set) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no terminal can be opened";
  const int kept_open = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const auto shown = [&](const std::string& environment) {
    const std::string command =
        environment + " '" ROTARY_PROGRAM "' inspect '" + small_llama() + "' > " + ptsname(terminal);
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::string text(65536, '\0');
    const ssize_t count = read(terminal, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  };
  const std::string coloured = shown("NO_COLOR= TERM=xterm");
  EXPECT_TRUE(contains(coloured, "0-1 \x1B[32mkept\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(coloured, "\x1B[1mrope 0\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(shown("NO_COLOR=1 TERM=xterm"), "0-1 kept"));
  EXPECT_TRUE(contains(shown("NO_COLOR= TERM=dumb"), "0-1 kept"));
  close(kept_open);
  close(terminal);
}

TEST_F(Inspect, is_ascii_where_the_locale_is_not_utf8) {
  const std::string config = write_config("named.json", R"("model_type": "caf\u00e9", "hidden_size": 8,
    "num_attention_heads": 2, "num_hidden_layers": 1)");
  const auto first = [&](const std::string& environment) {
    const std::string out = run({"inspect", config, "--pairing", "half"}, environment).out;
    return out.substr(0, out.find('\n'));
  };
  EXPECT_EQ(first("LC_ALL=C"), "model_type caf\\xC3\\xA9, 1 rope");
  EXPECT_EQ(first("LC_ALL=C.UTF-8"), "model_type caf\u00e9, 1 rope");
}

TEST_F(Inspect, shows_the_notes_on_the_ropes_that_it_shows) {
  const std::string qwen = configs + "qwen2.5-vl-7b.json";
  EXPECT_TRUE(contains(text_of({qwen}), "  vision_config: head_dim is not given"));
  EXPECT_FALSE(contains(text_of({qwen, "--rope", "0"}), "vision_config"));
  EXPECT_TRUE(contains(text_of({qwen, "--rope", "1"}), "  vision_config: head_dim is not given"));
  const std::string out =
      expect_success({"table", qwen, "--rope", "0", "--positions", "0:2", "--output", path("t.safetensors")}).out;
  EXPECT_FALSE(contains(out, "vision_config")) << out;
  EXPECT_TRUE(contains(out, "note: head_dim is not given")) << out;
}

TEST_F(Inspect, every_value_and_origin_fits_80_columns) {
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = text_of({entry.path().string()});
    std::istringstream stream(text.substr(0, text.find("\nnotes\n")));
    for (std::string line; std::getline(stream, line);) {
      const bool formula = contains(line, "ln(original_max_position_embeddings))");  // one word of 37 letters
      EXPECT_LE(line.size(), formula ? 84U : 80U) << entry.path() << ": " << line;
    }
  }
}

// ---- several models ----

TEST_F(Inspect, several_models_stand_side_by_side) {
  const std::string qwen = configs + "qwen3-8b.json", llama = configs + "llama-3.1-8b.json";
  expect_text({qwen, llama},
              {"~\n\\* base +1000000 +500000\n", "~\n  head_dim +128 +128\n", "~\n\\*   factor +- +8\n"});
  expect_text({qwen, configs + "gemma-3-27b.json"}, {"~\n\\* ropes +1 +2\n", "~\nrope 1\n\\* part +- +text_config\n"});
  const Json json = json_of({qwen, llama});
  ASSERT_EQ(json.at("models").size(), 2U);
  EXPECT_EQ(json.at("models").at(0).at("config"), qwen);
  EXPECT_EQ(json.at("models").at(1).at("ropes"), json_of({llama}).at("ropes"));
  const Json& keys = json.at("differences").at(0).at("keys");
  EXPECT_EQ(json.at("differences").at(0).at("rope"), 0);
  EXPECT_NE(std::find(keys.begin(), keys.end(), "base"), keys.end());
  EXPECT_EQ(std::find(keys.begin(), keys.end(), "head_dim"), keys.end());
  EXPECT_EQ(json_of({qwen, qwen}).at("differences"), Json({{{"rope", 0}, {"keys", Json::array()}}}));
  expect_said({"inspect", qwen, "qk.safetensors"}, "usage", "inspected alone");
  expect_said({"inspect", qwen, qwen, "--pairs"}, "usage", "--pairs shows one");
}

// ---- another scaling ----

TEST_F(Inspect, another_scaling_equals_a_config_that_says_it) {
  const auto numbers = [&](Strings words, const std::string& length) {
    if (!length.empty()) words.insert(words.end(), {"--length", length});
    const Json rope = rope_of(words);
    return std::pair(rope.at("inv_freq"), rope.at("attention_factor"));
  };
  struct {
    std::string word, trained, scaling, length = {};
  } const cases[] = {
      {"yarn", "", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64})"},
      {"yarn", "16", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16})"},
      {"linear", "", R"({"rope_type": "linear", "factor": 4})"},
      {"ntk_fixed", "", R"({"rope_type": "ntk", "factor": 4})"},
      {"ntk", "", R"({"rope_type": "ntk_aware", "factor": 4})"},
      {"dynamic", "", R"({"rope_type": "dynamic", "factor": 4})", "256"},
      {"llama3", "16", R"({"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 16})"}};
  for (const auto& each : cases) {
    Strings words = {small_llama(), "--scaling", each.word, "--factor", "4"};
    if (!each.trained.empty()) words.insert(words.end(), {"--trained-length", each.trained});
    const auto by_options = numbers(words, each.length);
    EXPECT_EQ(numbers({small_llama(R"(, "rope_scaling": )" + each.scaling)}, each.length), by_options) << each.word;
  }
  const std::string linear = small_llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4})");
  const auto unscaled = numbers({linear, "--scaling", "default"}, "");
  EXPECT_EQ(numbers({small_llama()}, ""), unscaled);
}

TEST_F(Inspect, another_scaling_says_where_its_values_come_from) {
  const std::string config = small_llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 2})");
  const Json all = json_of({config, "--scaling", "yarn", "--factor", "4"});
  const Json origins = all.at("ropes").at(0).at("origins");
  EXPECT_EQ(origins.at("scaling"), Json({{"origin", "given"}, {"from", "--scaling"}}));
  EXPECT_EQ(origins.at("scaling.factor"), Json({{"origin", "given"}, {"from", "--factor"}}));
  EXPECT_EQ(origins.at("scaling.trained_length"), Json({{"origin", "derived"}, {"from", "max_position_embeddings"}}));
  EXPECT_EQ(origins.at("scaling.beta_fast"), Json({{"origin", "default"}, {"from", "yarn"}}));
  EXPECT_EQ(origins.at("attention_factor"), Json({{"origin", "derived"}, {"from", "0.1 * ln(factor) + 1"}}));
  EXPECT_TRUE(contains(all.at("notes").dump(), "--scaling yarn replaces linear, the scaling of the file.")) << all;
  EXPECT_EQ(all.at("ropes").at(0).at("reach"), 256);
  EXPECT_EQ(rope_of({config, "--scaling", "linear", "--factor", "4", "--trained-length", "32"}).at("reach"), 128);
}

TEST_F(Inspect, a_base_above_1_replaces_that_of_the_config) {
  const Json all = json_of({small_llama(), "--base", "10000"});
  EXPECT_EQ(all.at("ropes").at(0).at("base"), 10000.0);
  EXPECT_EQ(all.at("ropes").at(0).at("inv_freq"), Json({1.0, 0.01}));
  EXPECT_EQ(all.at("ropes").at(0).at("origins").at("base"), Json({{"origin", "given"}, {"from", "--base"}}));
  EXPECT_TRUE(contains(all.at("notes").dump(), "--base 10000 replaces the base of the file, 100."));
  for (const std::string base : {"1", "nan"})
    expect_said({"inspect", small_llama(), "--base", base}, "SCALING",
                "--base must be finite and above 1 but got " + base + "\n");
}

TEST_F(Inspect, table_and_apply_take_another_scaling) {
  const std::string config = small_llama();
  const Strings scaling = {"--scaling", "linear", "--factor", "2"};
  const auto with = [&](Strings words) {
    words.insert(words.end(), scaling.begin(), scaling.end());
    return words;
  };
  expect_success(with({"table", config, "--positions", "0,2", "--output", path("t.safetensors")}));
  expect_success({"table", config, "--positions", "0:2", "--output", path("u.safetensors")});
  EXPECT_EQ(values_of<float>(read_tensor(path("t.safetensors"), "cos")),
            values_of<float>(read_tensor(path("u.safetensors"), "cos")));
  const Result without = run(with({"inspect", "--base", "100", "--pairing", "half", "--head-dim", "4", "--json"}));
  EXPECT_EQ(Json::parse(without.out).at("ropes").at(0).at("inv_freq"), Json({0.5, 0.05})) << without.err;
}

TEST_F(Inspect, another_scaling_is_checked) {
  const std::string config = small_llama();
  const std::vector<std::pair<Strings, std::string>> cases = {
      {{"--scaling", "yarn"}, "needs --factor"},
      {{"--factor", "2"}, "--factor needs --scaling"},
      {{"--trained-length", "2"}, "--trained-length needs --scaling"},
      {{"--scaling", "yarn", "--factor", "0.5"}, "from 1 to 1e15 but got 0.5"},
      {{"--scaling", "yarn", "--factor", "nan"}, "from 1 to 1e15"},
      {{"--scaling", "yarn", "--factor", "2", "--trained-length", "0"}, "but got 0"},
      {{"--scaling", "longrope", "--factor", "2"}, "short_factor"},
      {{"--scaling", "proportional", "--factor", "2"}, "fraction"},
      {{"--scaling", "default", "--factor", "2"}, "scales nothing"},
      {{"--scaling", "yarm", "--factor", "2"}, "yarn"}};
  for (const auto& [options, part] : cases) {
    Strings words = {"inspect", config};
    words.insert(words.end(), options.begin(), options.end());
    expect_said(words, "usage", part);
  }
  expect_said(
      {"inspect", "--base", "100", "--pairing", "half", "--head-dim", "4", "--scaling", "yarn", "--factor", "2"},
      "usage", "needs --trained-length");
  const std::string gemma = configs + "gemma-3-27b.json";
  expect_said({"inspect", gemma, "--scaling", "linear", "--factor", "2"}, "ROPE", "--rope N");
  EXPECT_EQ(rope_of({gemma, "--scaling", "linear", "--factor", "2", "--rope", "1"}).at("scaling_parameters"),
            Json({{"factor", 2.0}}));
  // A tower beside the text is no second rope of it.
  EXPECT_EQ(rope_of({configs + "qwen2.5-vl-7b.json", "--scaling", "linear", "--factor", "2"}).at("scaling"), "linear");
}

TEST_F(Inspect, names_the_file_whose_frequencies_cannot_be) {
  const std::string config = write_config("two.json", R"("model_type": "llama", "hidden_size": 4,
    "num_attention_heads": 2, "num_hidden_layers": 1, "max_position_embeddings": 64,
    "rope_scaling": {"rope_type": "dynamic", "factor": 2})");
  expect_said({"inspect", config}, "SCALING", "[frequencies] " + config + ": dynamic needs");
  expect_said({"table", config, "--positions", "0:2", "--output", path("t.safetensors")}, "SCALING", config + ": ");
}

// ---- where a config may lie ----

class Hub : public Inspect {
 protected:
  // The cache's folder of one repository with one snapshot.
  void add(const std::string& repository, const std::string& commit, const std::string& reference) const {
    namespace fs = std::filesystem;
    const fs::path folder = path("hub/models--" + repository);
    fs::create_directories(folder / "snapshots" / commit);
    fs::create_directories(folder / "refs");
    fs::rename(small_llama(), folder / "snapshots" / commit / "config.json");
    if (!reference.empty()) write_text(folder / "refs" / reference, commit);
  }
  std::string cache() const { return "HF_HUB_CACHE='" + path("hub") + "'"; }
};

TEST_F(Hub, a_repository_lies_in_the_cache) {
  add("some--model", "0123abc", "main");
  add("some--model", "456def", "v2");
  const auto type = [&](const std::string& config, const std::string& environment) {
    const Result result = run({"inspect", config, "--json"}, environment);
    return result.exit == 0 ? Json::parse(result.out).at("model_type").get<std::string>() : result.err;
  };
  EXPECT_EQ(type("some/model", cache()), "llama");
  EXPECT_EQ(type("some/model@v2", cache()), "llama");
  EXPECT_EQ(type("some/model@456def", cache()), "llama");
  EXPECT_EQ(type("some/model", "HF_HUB_CACHE= HUGGINGFACE_HUB_CACHE= HF_HOME='" + path("") + "'"), "llama");
  EXPECT_EQ(type("some/model", "HF_HUB_CACHE='~/hub' HOME='" + path("") + "'"), "llama");
  const Result table = run({"table", "some/model", "--positions", "0:2", "--output", path("t.safetensors")}, cache());
  EXPECT_EQ(table.exit, 0) << table.err;
}

TEST_F(Hub, a_repository_that_is_not_there_is_an_error_with_the_command_that_fetches_it) {
  add("some--model", "0123abc", "main");
  expect_said({"inspect", "other/model"}, "FILE", "hf download other/model config.json\n", cache());
  expect_said({"inspect", "some/model@v9"}, "FILE", "hf download some/model config.json --revision v9\n", cache());
  expect_said({"inspect", "some/model@../../x"}, "FILE", "cannot be opened", cache());
  expect_said({"inspect", "missing/config.json"}, "FILE", "cannot be opened", cache());
  EXPECT_FALSE(contains(run({"inspect", "missing.json"}, cache()).err, "hf download"));
}

TEST_F(Inspect, standard_input_and_pipes_hold_a_config) {
  const std::string config = small_llama();
  const auto piped = [&](const std::string& word) {
    const std::string command =
        "cat '" + config + "' | '" ROTARY_PROGRAM "' inspect " + word + " --json > '" + path("out") + "' 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return read_text(path("out"));
  };
  const std::string wanted = expect_success({"inspect", config, "--json"}).out;
  EXPECT_EQ(piped("-"), wanted);
  EXPECT_EQ(piped("/dev/stdin"), wanted);
  EXPECT_EQ(piped("/dev/fd/0"), wanted);
  const auto broken = [&](const std::string& text) {
    const std::string command = "printf '" + text + "' | '" ROTARY_PROGRAM "' inspect - > '" + path("out") + "' 2>&1";
    EXPECT_NE(std::system(command.c_str()), 0);
    return read_text(path("out"));
  };
  EXPECT_EQ(broken(""), "error: FILE: [read_config] standard input: must hold a config but is empty\n");
  EXPECT_TRUE(contains(broken("{"), "error: JSON: [parse] standard input: the text must be JSON")) << broken("{");
  EXPECT_TRUE(contains(broken("GGUF"), "standard input: must be JSON but is a GGUF"));
}

}  // namespace
}  // namespace rotary::cli_tests
