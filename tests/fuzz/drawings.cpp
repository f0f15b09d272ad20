// Any text as a config of a diffusion transformer, behind a line of numbers that say what it draws: refused under a
// known code, or finite coordinates of one shape.
#include <cmath>
#include <cstdlib>

#include "fuzz.h"
#include "rotary/positions.h"

namespace rotary::fuzz {
namespace {

// Height, width, frames, fps, text tokens (below 0: not said), pixels to a side of a latent, frames to one, height and
// width of a reference (0: none). What is missing is 0.
Drawing drawing_of(const std::string& line) {
  long long n[9] = {};
  const char* at = line.c_str();
  for (long long& number : n) {
    char* end = nullptr;
    number = std::strtoll(at, &end, 10);
    at = end;
  }
  Drawing drawing{.size = {n[0], n[1]}, .frames = n[2], .fps = static_cast<double>(n[3])};
  if (n[4] >= 0) drawing.text = n[4];
  drawing.vae_scale = n[5];
  drawing.vae_scale_time = n[6];
  if (n[7] != 0) drawing.references.push_back({n[7], n[8]});
  return drawing;
}

}  // namespace

std::vector<std::string> seeds() {
  return {
      "64 96 0 0 5 8 0 32 32\n{\"_class_name\":\"FluxTransformer2DModel\"}",
      "64 96 0 0 5\n{\"_class_name\":\"QwenImageTransformer2DModel\",\"patch_size\":2}",
      "64 64 9 24 -1 8 4\n{\"_class_name\":\"WanTransformer3DModel\",\"patch_size\":[1,2,2]}",
      "64 96 17 25 -1 32 8\n{\"_class_name\":\"LTXVideoTransformer3DModel\",\"attention_head_dim\":8}",
      "64 64 9 8 -1 8 4\n{\"_class_name\":\"CogVideoXTransformer3DModel\",\"use_rotary_positional_embeddings\":true,"
      "\"sample_height\":60,\"sample_width\":90,\"patch_size\":2}",
      "128 64 0 0 300\n{\"_class_name\":\"BriaFibo2Transformer2DModel\",\"min_num_gist_tokens\":256,\"gist_step\":64}",
      "64 96 13 16 7\n{\"_class_name\":\"HunyuanVideoTransformer3DModel\",\"patch_size\":2,\"patch_size_t\":1}",
      "64 96 1 0 5 8 0 32 32\n{\"_class_name\":\"FluxTransformer2DModel\",\"attention_head_dim\":72,"
      "\"axes_dims_rope\":[72,0,0]}",
      "64 64 9 0 -1 8 4\n{\"_class_name\":\"Kandinsky5Transformer3DModel\",\"axes_dims\":[0,16,16],"
      "\"patch_size\":[1,2,2]}",
      "96 64 8 16 -1\n{\"_class_name\":\"AllegroTransformer3DModel\",\"patch_size\":2}",
  };
}

std::vector<std::string> words() {
  return words_of(R"(0 -1 1 7 16 4096 2147483648 9223372036854775807 -9223372036854775808 1e308 1e-320 0.5 null [] [0]
"_class_name": "patch_size": "patch_size_t": "sample_height": "sample_width": "sample_frames": "patch_size":[1,2,2]
"axes_dims": "axes_dims_rope": [0,16,16] [16,0] "rope_scale": "base_height": "max_num_gist_tokens":
"gist_min_text_len": "Lumina2Transformer2DModel"
"ZImageTransformer2DModel" "Flux2Transformer2DModel" "MochiTransformer3DModel" "ChronoEditTransformer3DModel"
"Cosmos3OmniTransformer" "OmniGenTransformer2DModel" "Kandinsky5Transformer3DModel" "HunyuanDiT2DModel")",
                  {"\n{"});
}

void one(const std::string& input) {
  const std::size_t line = input.find('\n');
  if (line == std::string::npos || input.find('{', line) != line + 1) return;  // any other text names a file
  ModelInputs inputs;
  inputs.drawing = drawing_of(input.substr(0, line));
  // Larger ones take long, and are refused beyond max_positions.
  const auto& size = inputs.drawing->size;
  if (size[0] > 8192 && size[1] > 8192 && size[0] < (1 << 20) && size[1] < (1 << 20)) return;
  try {
    const PositionSet set = model_positions(input.substr(line + 1), inputs).positions;
    require(set.integers.empty() || set.reals.empty(), "integers or reals");
    const std::size_t count = set.integers.size() + set.reals.size();
    require(count > 0 && count == static_cast<std::size_t>(set.axes * set.batch * set.tokens), "one shape");
    for (const double position : set.reals) require(std::isfinite(position), "positions must be finite");
  } catch (const Error& error) {
    require_refusal(
        error, "[",
        {"JSON", "CONFIG_KEY", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "ROPE", "SCALING", "SHAPE", "POSITION"});
  }
}

}  // namespace rotary::fuzz
