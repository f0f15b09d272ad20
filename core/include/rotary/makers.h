// Frequencies by the names that papers and libraries give them, for Rope::inv_freq and Rope::base. In double, each
// within a few ulp of its formula (golden_directions: 1e-13). docs/variants.md says which models use them. All throw
// SHAPE (sizes) and VALUE (numbers for which the formula is not defined).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rotary/export.h"
#include "rotary/rope.h"

namespace rotary {

// ---- directions: the angle of a pair is a sum over coordinates -----------------------------------
// Results are Rope::inv_freq, [heads, axes, head_dim / 2], for a rope with these heads and summed_axes = axes.

// RoPE-Mixed, arXiv 2403.13298, as timm's init_random_2d_freqs (base 10): two axes. angles: for each head the direction
// of its first head_dim / 4 pairs; the other pairs are at a right angle to them.
ROTARY_API std::vector<double> mixed_directions(int head_dim, std::span<const double> angles, double base = 10);
// A random angle in [0, 2 pi) for each head. A seed gives the same angles on every machine, but not those of torch.
ROTARY_API std::vector<double> random_angles(int heads, std::uint64_t seed);
// Golden gate RoPE, jerryxio.ng/posts/nd-rope: the first pairs, the share `still` of them, do not rotate; the speeds of
// the others are geometric from `least` to `most`. Directions spread evenly over all heads and pairs. axes: 1 to 16.
ROTARY_API std::vector<double> golden_directions(int head_dim, int heads, int axes, double least, double most,
                                                 double still = 0);

// ---- runs of frequencies: [pairs] ----------------------------------------------------------------

// Geometric, with both ends: first, ..., last. LTX-Video: pi / 2 to base pi / 2; nanoGPT speedruns: 1 to 1 / 1024.
ROTARY_API std::vector<double> geometric_frequencies(int pairs, double first, double last);
// pi linspace(1, most / 2): rotary-embedding-torch's freqs_for "pixel", timm's linear_bands; positions in [-1, 1].
ROTARY_API std::vector<double> pixel_frequencies(int pairs, double most);

// ---- changes of frequencies ----------------------------------------------------------------------

// CoPE-clip, arXiv 2602.05258: multiplies the last pairs by (1 + cos u) / 2 with u from 0 to pi; hard: by 0.
ROTARY_API std::vector<double> clipped(std::vector<double> inv_freq, int last = 20, bool hard = false);

// ---- axes: the coordinate of each pair, for Rope::axis -------------------------------------------
// sections: the numbers of pairs that rotate by time, height and width, the coordinates 0, 1 and 2. rope.h has the axes
// of Qwen2-VL, Qwen3-VL and Ernie.

// SGLang's mrope_interleaved_glm (rotary_embedding/mrope.py): pair i takes axis i mod 3, or the next with pairs left.
ROTARY_API std::vector<std::uint8_t> glm_axes(std::span<const int> sections);
// openPangu VL in vLLM (mrope_interleaved.py): each pair takes the axis that has placed the least share of its pairs,
// the first of equals, but not the axis of the pair before it while another has some left; the last pair is time's.
ROTARY_API std::vector<std::uint8_t> openpangu_axes(std::span<const int> sections);
// VideoRoPE, arXiv 2502.05173; Ming's "video_rope", Ling 3 VL: height and width by turns, then time, the slowest pairs.
ROTARY_API std::vector<std::uint8_t> videorope_axes(std::span<const int> sections);

// ---- bases ---------------------------------------------------------------------------------------

// NTK by resolution (diffusers' Cosmos): base * scale^(strength * width / (width - 2)) for an axis of `width`.
ROTARY_API double ntk_base(double base, double scale, int width, double strength = 1);

}  // namespace rotary
