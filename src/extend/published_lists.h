// The published lists of LongRoPE.
#pragma once

#include "rotary/rotary.h"

namespace rotary::extend {

LongRope phi_3_mini();    // microsoft/Phi-3-mini-128k-instruct
LongRope phi_3_medium();  // microsoft/Phi-3-medium-128k-instruct
LongRope phi_3_5_mini();  // microsoft/Phi-3.5-mini-instruct
LongRope phi_4_mini();    // microsoft/Phi-4-mini-instruct
LongRope phi_3_5_moe();   // microsoft/Phi-3.5-MoE-instruct

}  // namespace rotary::extend
