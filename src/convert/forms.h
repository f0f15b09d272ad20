// Tables of cos and sin in files: the forms that frameworks have them in.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::convert {

enum class Form : std::uint8_t {
  pairs,    // cos and sin [..., pairs]
  doubled,  // cos and sin [..., 2 pairs], each value twice: as Hugging Face has them, in the order of the pairing
  joined,   // [..., 2 pairs], cos before sin, as vLLM has it
  complex,  // [..., pairs, 2], or C64 [..., pairs], as Meta has it
};
const char* name(Form) noexcept;  // "pairs", ...
Form parse_form(const std::string&);

struct TableForm {
  Form form = Form::pairs;
  Pairing pairing = Pairing::unset;  // of the order in which `doubled` repeats; unset where any fits
};

// The tensors of a table, by their names and shapes: cos and sin; cos_sin or cos_sin_cache; freqs_cis; of an .npy its
// only one. Empty: there is none. Throws TENSOR, SHAPE.
struct TableTensors {
  TableForm form;
  std::vector<Tensor> tensors;  // one, or cos and sin
  std::vector<Tensor> rest;     // the file's other tensors
};
bool has_table(const std::vector<TensorInfo>&, bool npy);
// form: what the metadata say of the two of pairs and doubled; empty: nothing.
TableTensors table_of(std::vector<Tensor>, const std::string& form = {});

// The same values in another form; no value is rounded. Throws SHAPE.
std::vector<Tensor> in_form(const TableTensors&, TableForm);

}  // namespace rotary::convert
