// Frequencies by the names that papers and libraries give them, for Rope::inv_freq and Rope::base. In double, each
// within a few ulp of its formula (golden_directions: 1e-13). docs/variants.md says who uses which. All throw SHAPE
// (sizes) and VALUE (numbers that the formula does not take).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rotary/export.h"
#include "rotary/rope.h"

namespace rotary {

// ---- directions: a pair turns by a sum over coordinates ------------------------------------------
// Rope::inv_freq [heads, axes, head_dim / 2] of a rope with these heads and summed_axes.

// RoPE-Mixed, arXiv 2403.13298, as timm's init_random_2d_freqs: two axes; base 10 there. angles: the direction of each
// head's first head_dim / 4 pairs; the others are turned by a right angle.
ROTARY_API std::vector<double> mixed_directions(int head_dim, std::span<const double> angles, double base = 10);
// An angle in [0, 2 pi) for each head, the same on every machine, by any seed. Torch's seeds draw others.
ROTARY_API std::vector<double> random_angles(int heads, std::uint64_t seed);
// Golden gate RoPE, jerryxio.ng/posts/nd-rope: speeds geometric from `least` to `most`, behind the share `still` of
// pairs that do not turn; directions evenly spread over all heads and pairs. axes from 1 to 16.
ROTARY_API std::vector<double> golden_directions(int head_dim, int heads, int axes, double least, double most,
                                                 double still = 0);

// ---- runs of frequencies: [pairs] ----------------------------------------------------------------

// Geometric to both ends: first, ..., last. LTX-Video: pi / 2 to base pi / 2; nanoGPT speedruns: 1 to 1 / 1024.
ROTARY_API std::vector<double> geometric_frequencies(int pairs, double first, double last);
// pi linspace(1, most / 2): rotary-embedding-torch's freqs_for "pixel", timm's linear_bands; positions in [-1, 1].
ROTARY_API std::vector<double> pixel_frequencies(int pairs, double most);

// ---- changes of frequencies ----------------------------------------------------------------------

// CoPE-clip, arXiv 2602.05258: the last pairs times (1 + cos u) / 2, u from 0 to pi; hard: 0.
ROTARY_API std::vector<double> clipped(std::vector<double> inv_freq, int last = 20, bool hard = false);

// ---- axes: which coordinate each pair turns by, for Rope::axis -----------------------------------
// sections: how many pairs listen to time, height and width, the coordinates 0, 1 and 2. rope.h has Qwen2-VL's,
// Qwen3-VL's and Ernie's.

// SGLang's mrope_interleaved_glm (rotary_embedding/mrope.py): pair i takes axis i mod 3, or the next with pairs left.
ROTARY_API std::vector<std::uint8_t> glm_axes(std::span<const int> sections);
// openPangu VL in vLLM (mrope_interleaved.py): each pair takes the axis that has placed the least share of its pairs,
// the first of equals, but not the axis of the pair before it while another has some left; the last pair is time's.
ROTARY_API std::vector<std::uint8_t> openpangu_axes(std::span<const int> sections);
// VideoRoPE, arXiv 2502.05173; Ming's "video_rope", Ling 3 VL: height and width by turns, then time, the slowest pairs.
ROTARY_API std::vector<std::uint8_t> videorope_axes(std::span<const int> sections);

// ---- bases ---------------------------------------------------------------------------------------

// NTK by resolution (diffusers' Cosmos): base * scale^(strength * width / (width - 2)) of an axis of `width`.
ROTARY_API double ntk_base(double base, double scale, int width, double strength = 1);

}  // namespace rotary
