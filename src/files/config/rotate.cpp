// rotate_qk by a model's rope.
#include "rotary/config.h"
#include "rotate/rotate_by.h"

namespace rotary {

void rotate_qk(const Heads& q, const Heads& k, const ModelRope& used, std::int64_t first_position,
               const RotateOptions& options) {
  detail::rotate_qk_by("rotate_qk", q, k, used.rope, used.first, first_position, options);
}

}  // namespace rotary
