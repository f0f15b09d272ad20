// A command that has printed its answer, and the answer is no.
#pragma once

namespace rotary::cli {

struct Failed {
  int status;
};

}  // namespace rotary::cli
