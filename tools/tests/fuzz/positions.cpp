// Positions: any text as --positions, refused in one sentence or read back the same when written out; and token ids,
// grids and bounds of all sizes for each way in which models make position ids, refused or made, and then equal to
// themselves beside others.
#include "rotary/positions.h"

#include <cmath>

#include "core/tests/fuzz/fuzz.h"

namespace rotary::fuzz {
namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

// A model for each way, with the ids 1 to 9 for its marks.
constexpr const char* types[] = {"qwen2_vl",
                                 "qwen2_5_vl",
                                 "ernie4_5_vl_moe",
                                 "glm4v",
                                 "cosmos3_omni",
                                 "hy_v4_vl",
                                 "glm_image",
                                 "hunyuan_vl",
                                 "neomme",
                                 "minicpmv4_7",
                                 "qwen2_5_omni_thinker",
                                 "qwen3_omni_moe_thinker",
                                 "llama",
                                 "opt",
                                 "roberta",
                                 "qwen2_vl_vision",
                                 "video_llama_3_vision",
                                 "dinov3_vit",
                                 "llama4_vision_model",
                                 "sam3_vit_model",
                                 "vjepa2",
                                 "inkling2_vision"};
std::string config_of(const std::string& type) {
  return R"({"model_type":")" + type +
         R"(","image_token_id":1,"video_token_id":2,"audio_token_id":3,"image_start_token_id":4,"image_start_id":4,)"
         R"("vision_start_token_id":4,"document_token_id":4,"image_end_token_id":5,"image_end_id":5,)"
         R"("audio_start_token_id":6,"video_start_token_id":7,"slice_start_id":7,"video_end_token_id":8,)"
         R"("slice_end_id":8,"newline_id":9,"downsample_mode":"4x","image_size":56,"patch_size":14,"crop_size":28,)"
         R"("frames_per_clip":4,"rope_parameters":{"mrope_section":[1,1,1,1]},"audio_config":{"n_window":4},)"
         R"("vision_config":{"spatial_merge_size":2}})";
}

// Numbers of which all codes but the last eight are small.
std::int64_t number(Choices& choices) {
  const int code = choices.below(64);
  constexpr std::int64_t odd[] = {0, -1, 1 << 25, INT32_MAX, std::int64_t{1} << 40, most / 2, most, -most};
  return code < 56 ? 1 + code % 28 : odd[code - 56];
}

template <class List>
void fill(List& list, Choices& choices, int bound) {
  for (int left = choices.below(bound); left > 0; --left) {
    auto& item = list.emplace_back();
    if constexpr (requires { item[0]; }) {
      for (std::int64_t& side : item) side = number(choices);
    } else {
      item = static_cast<std::decay_t<decltype(item)>>(number(choices));
    }
  }
}

PositionsRequest request_of(Choices& choices) {
  PositionsRequest request{.config = config_of(types[choices.below(std::size(types))])};
  ModelInputs& inputs = request.inputs;
  const int given = choices.below(256);
  inputs.publisher = (given & 1) != 0;
  fill(inputs.image_grids, choices, 4);
  fill(inputs.video_grids, choices, 3);
  fill(inputs.audio_lengths, choices, 3);
  if ((given & 2) != 0) fill(inputs.seconds_per_grid, choices, 3);
  if ((given & 4) != 0) {
    request.cu_seqlens.push_back(choices.below(8) == 7 ? number(choices) : 0);
    for (int left = choices.below(5); left > 0; --left)
      request.cu_seqlens.push_back(static_cast<std::int64_t>(static_cast<std::uint64_t>(request.cu_seqlens.back()) +
                                                             static_cast<std::uint64_t>(number(choices))));
  }
  if ((given & 8) != 0) {
    request.split = static_cast<Split>(choices.below(3));
    request.ranks = number(choices);
    request.rank = number(choices) - 1;
  }
  inputs.batch = (given & 16) != 0 ? 2 : 1;
  const int hidden = (given & 32) != 0 ? choices.below(16) : 0;
  if ((given & 64) == 0) {
    while (!choices.rest().empty() && inputs.ids.size() < 200) {  // a token, and how often
      const int id = choices.below(11);
      inputs.ids.insert(inputs.ids.end(), static_cast<std::size_t>(1 + choices.below(24)), id);
    }
  }
  inputs.tokens = (given & 128) != 0 ? number(choices) : std::ssize(inputs.ids) / inputs.batch;
  if ((given & 32) != 0) {
    inputs.mask.assign(inputs.ids.empty() ? 16 : inputs.ids.size(), 1);
    for (std::size_t token = 0; std::cmp_less(token, hidden) && token < inputs.mask.size(); ++token)
      inputs.mask[token] = 0;
  }
  return request;
}

void require_checked(const PositionsRequest& request, const PositionSet& set, int changed) {
  std::vector<double> ids(set.integers.begin(), set.integers.end());
  if (ids.empty()) ids = set.reals;
  require(std::cmp_equal(ids.size(), set.axes * set.batch * set.tokens), "an id for each axis and token");
  for (const double id : ids) require(std::isfinite(id), "ids must be finite");
  const std::vector<std::int64_t> shape = {set.axes, set.batch, set.tokens};
  require(check_ids(request, ids, shape).equal(), "ids must be equal to themselves");
  if (ids.empty()) return;
  ids[static_cast<std::size_t>(changed) % ids.size()] += changed % 3 - 1;
  const IdsCheck check = check_ids(request, ids, shape);
  require(!check.sentence().empty(), "a check must say what it found");
  to_json(check);
}

void check_model(Choices& choices) {
  const int changed = choices.below(256);
  const PositionsRequest request = request_of(choices);
  std::optional<ModelPositions> made;
  try {
    made = make_positions(request);
  } catch (const Error& error) {
    require_refusal(error, "[", {"POSITION", "SHAPE", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "VALUE"});
  }
  if (made) require_checked(request, made->positions, changed);
}

// Functions of lists of numbers.
void check_lists(Choices& choices) {
  const int question = choices.below(4);
  std::vector<std::int64_t> list;
  fill(list, choices, 12);
  const std::int64_t a = number(choices), b = number(choices);
  try {
    if (question == 0) require(mask_positions(list, a).size() == list.size(), "a position for each token");
    if (question == 1)
      require(self_extend_positions(list, a, b).key.size() == list.size(), "a position for each token");
    if (question == 2) require(dual_chunk_positions(list, a, b).far.size() == list.size(), "a position for each token");
    if (question == 3 && a < 1000) held_tokens({.tokens = a, .sinks = b}, number(choices));
  } catch (const Error& error) {
    require_refusal(error, "[positions] ", {"POSITION", "SHAPE"});
  }
}

void check_text(std::string_view text) {
  try {
    const PositionSet set = parse_ranges(text);
    require(set.open_from.has_value() || !set.integers.empty(), "no positions");
    require(set.integers.size() <= static_cast<std::size_t>(max_positions), "count");
    if (set.integers.size() > 1000) return;
    const PositionSet closed = set.closed(set.tokens + 3);
    std::string spelled;
    for (const std::int64_t position : closed.integers) {
      spelled += (spelled.empty() ? "" : ",") + std::to_string(position);
    }
    require(parse_ranges(spelled).integers == closed.integers,
            "positions spelled out must give themselves: " + spelled);
  } catch (const Error& error) {
    require(error.code() == Code::POSITION, "unexpected code " + std::string(name(error.code())));
  }
}

// A text that names a way, without files.
void check_named(std::string_view text) {
  if (text.find(".npy") != text.npos || text.size() > 60) return;
  try {
    const auto set = parse_named_positions(text, 3);
    if (set) require(std::cmp_equal(set->integers.size(), set->axes * set->batch * set->tokens), "sizes");
  } catch (const Error& error) {
    require_refusal(error, "[", {"POSITION", "FILE"});  // mask:FILE
  }
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const char* text :
       {"0:16", "7", "0:8,100:104", "-5:5", "100:", "+16", "0:4,-9:", "9223372036854775806:9223372036854775807"})
    texts.push_back(std::string(1, '\0') + text);
  for (const char* text : {"packed:0,5,9", "image:24x34", "image:24x34/2", "zigzag:0/2:16", "striped:1/2:16"})
    texts.push_back("\1" + std::string(text));
  for (char question = 0; question < 4; ++question) texts.push_back(std::string("\2") + question + "\4\1\2\3\4\3\3\2");
  // The bits of `given`; images, films and sounds with their numbers; token ids, each with its count - 1.
  const std::vector<std::vector<int>> inputs = {
      {0, 1, 0, 3, 3, 0, 0, 0, 2, 4, 0, 1, 3, 5, 0, 0, 2},                            // an image between words
      {0, 1, 0, 3, 3, 0, 0, 4, 0, 1, 5, 5, 0},                                        // whose rows end in a column more
      {0, 1, 0, 3, 3, 0, 0, 4, 0, 1, 2, 9, 0, 1, 1, 9, 0},                            // a page
      {0, 2, 0, 3, 3, 0, 3, 3, 0, 0, 4, 0, 1, 3, 5, 0, 7, 0, 1, 3, 8, 0},             // an image and its slice
      {0, 0, 1, 1, 3, 3, 0, 0, 2, 4, 0, 2, 7, 5, 0, 0, 2},                            // a video of two frames
      {0, 0, 1, 1, 3, 3, 0, 4, 0, 2, 3, 5, 0, 4, 0, 2, 3, 5, 0},                      // frame by frame
      {0, 1, 0, 3, 3, 0, 1, 2, 4, 0, 1, 3, 5, 0, 6, 0, 3, 0, 0, 1},                   // an image and a sound
      {2, 0, 1, 0, 3, 3, 1, 2, 1, 0, 4, 0, 6, 0, 2, 3, 3, 0, 5, 0, 0, 1},             // a video with sound
      {16 + 32, 0, 0, 0, 3, 0, 7},                                                    // two rows of words, masked
      {4 + 8, 0, 0, 0, 0, 2, 3, 3, 0, 1, 0, 0, 7},                                    // packed and split
      {4, 2, 0, 3, 3, 0, 3, 3, 0, 0, 0, 2, 5, 5, 4, 0, 1, 3, 5, 0, 4, 0, 1, 3, 5, 0}  // packed images
  };
  for (std::size_t type = 0; type < std::size(types); ++type) {
    for (const std::vector<int>& input : inputs) {
      std::string text = {3, 5, static_cast<char>(type)};
      for (const int code : input) text += static_cast<char>(code);
      texts.push_back(text);
    }
  }
  return texts;
}

std::vector<std::string> words() {
  return {":",
          ",",
          "-",
          "+",
          "0",
          "1",
          "-9223372036854775808",
          "9223372036854775807",
          "18446744073709551616",
          " ",
          ".5",
          "packed:",
          "mask:",
          "image:",
          "zigzag:",
          "contiguous:",
          "striped:",
          "/",
          "x"};
}

void one(const std::string& input) {
  Choices choices(input);
  const int question = choices.below(8);
  question == 0   ? check_text(choices.rest())
  : question == 1 ? check_named(choices.rest())
  : question == 2 ? check_lists(choices)
                  : check_model(choices);
}

}  // namespace rotary::fuzz
