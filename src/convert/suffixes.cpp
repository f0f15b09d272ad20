#include "suffixes.h"

#include <algorithm>

#include "files/text/io.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::convert {
namespace {

enum class Kind : std::uint8_t {
  output,        // the output's elements are its rows
  packed,        // qweight of GPTQ and AWQ
  packed_zeros,  // qzeros of both
  scales,        // of GPTQ and AWQ in columns, of MLX in rows
  block_scales,  // one for so many rows and columns; or one per row
  zeros,         // zero points: one per row, or packed along the rows
  input,         // belongs to the input, or to the tensor as a whole
};

struct Suffix {
  std::string_view text;
  Kind kind;
};
// transformers, PEFT, compressed-tensors, FP8 of DeepSeek, AutoGPTQ, AutoAWQ, bitsandbytes, MLX, ModelOpt.
constexpr Suffix suffixes[] = {
    {"weight", Kind::output},
    {"bias", Kind::output},
    {"parametrizations.weight.original", Kind::output},  // jina-embeddings-v3, with the LoRAs of its tasks
    {"parametrizations.weight.0.lora_A", Kind::input},
    {"parametrizations.weight.0.lora_B", Kind::output},
    {"0.weight", Kind::input},  // the adapters of Zamba2
    {"1.weight", Kind::output},
    {"Plora_A.weight", Kind::input},  // InternLM-XComposer2
    {"Plora_B.weight", Kind::output},
    {"lora_B.weight", Kind::output},
    {"lora_B.bias", Kind::output},
    {"lora_magnitude_vector", Kind::output},
    {"ia3_l", Kind::output},
    {"hada_w1_a", Kind::output},  // LoHa
    {"hada_w1_b", Kind::input},
    {"hada_w2_a", Kind::output},
    {"hada_w2_b", Kind::input},
    {"lokr_w1", Kind::input},  // LoKr
    {"lokr_w1_a", Kind::input},
    {"lokr_w1_b", Kind::input},
    {"lokr_w2", Kind::output},
    {"lokr_w2_a", Kind::output},
    {"lokr_w2_b", Kind::input},
    {"oft_R.weight", Kind::input},  // OFT, BOFT and HRA turn the input
    {"boft_R", Kind::input},
    {"boft_P", Kind::input},
    {"boft_s", Kind::output},
    {"hra_u", Kind::input},
    {"weight._data", Kind::output},  // quanto's 8 bits
    {"weight._scale", Kind::output},
    {"weight_packed", Kind::output},
    {"weight_scale", Kind::block_scales},
    {"weight_scale_inv", Kind::block_scales},
    {"scale", Kind::block_scales},
    {"SCB", Kind::output},
    {"weight.absmax", Kind::output},
    {"weight_zero_point", Kind::zeros},
    {"weight_offset", Kind::zeros},
    {"output_scale", Kind::output},
    {"output_zero_point", Kind::output},
    {"biases", Kind::output},
    {"scales", Kind::scales},
    {"qweight", Kind::packed},
    {"qzeros", Kind::packed_zeros},
    {"lora_A.weight", Kind::input},
    {"lora_A", Kind::input},
    {"lora_B", Kind::output},
    {"lora_E", Kind::input},
    {"ranknum", Kind::input},
    {"g_idx", Kind::input},
    {"weight_g_idx", Kind::input},
    {"weight_shape", Kind::input},
    {"weight_global_scale", Kind::input},
    {"weight_scale_2", Kind::input},
    {"weight_format", Kind::input},
    {"weight.quant_map", Kind::input},
    {"weight.quant_state.bitsandbytes__nf4", Kind::input},
    {"weight.quant_state.bitsandbytes__fp4", Kind::input},
    {"input_scale", Kind::input},
    {"input_zero_point", Kind::input},
    {"input_global_scale", Kind::input},
    {"pre_quant_scale", Kind::input},
};

const Suffix* find(std::string_view suffix) {
  for (const Suffix& row : suffixes) {
    if (row.text == suffix) return &row;
  }
  return nullptr;
}

// PEFT puts the adapter's name behind the module, as in "lora_B.default.weight"; moshi's projections hold a linear.
std::string plain(std::string_view suffix) {
  if (suffix.starts_with("linear.")) suffix.remove_prefix(7);
  if (suffix.starts_with("lora_magnitude_vector")) return "lora_magnitude_vector";
  if (suffix.starts_with("lora_E")) return "lora_E";
  if ((suffix.starts_with("lora_A") || suffix.starts_with("lora_B")) && !suffix.ends_with("weight") &&
      !suffix.ends_with("bias")) {
    return std::string(suffix.substr(0, 6));  // AdaLoRA's are parameters, not modules
  }
  if (!suffix.empty() && suffix[0] >= '0' && suffix[0] <= '9') return std::string(suffix.substr(suffix.find('.') + 1));
  const std::size_t name = suffix.find('.') + 1;
  const std::size_t last = suffix.rfind('.');
  if (suffix.starts_with("lora_") && last != std::string_view::npos && last >= name) {
    return std::string(suffix.substr(0, name)) + std::string(suffix.substr(last + 1));
  }
  return std::string(suffix);
}

class Reading {
 public:
  Reading(const TensorInfo& tensor, const Projection& projection) : tensor_(tensor), projection_(projection) {}

  std::optional<Change> read(const std::string& suffix, Kind kind) const {
    if (kind == Kind::input) return std::nullopt;
    const bool whole = suffix != "weight" && suffix != "bias" && !suffix.starts_with("lora");
    if (whole && tensor_.elements() == 1) return std::nullopt;   // of the projection as a whole
    if (suffix == "ia3_l" && front() == 1) return std::nullopt;  // of the inputs of a feed-forward module: [1, in]
    switch (kind) {
      case Kind::packed:
        return packed_weight();
      case Kind::packed_zeros:
        return packed_numbers();
      case Kind::scales:
        return projection_.has("qweight") ? columns() : rows();
      case Kind::block_scales:
        return scales();
      case Kind::zeros:
        return zeros();
      default:
        if (projection_.has("weight.absmax")) refuse_nested();
        return rows();
    }
  }

  [[noreturn]] void refuse(Code code, const std::string& sentence) const {
    fail(code, "convert", "tensor " + files::in_quotes(tensor_.name) + " " + sentence);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(projection_.sources->size()); }
  Change change(Axis axis, int bits = 0) const { return {axis, bits, projection_.sources}; }
  std::int64_t front() const { return tensor_.shape.empty() ? 0 : tensor_.shape.front(); }
  std::int64_t back() const { return tensor_.shape.empty() ? 0 : tensor_.shape.back(); }

  [[noreturn]] void refuse_shape(const std::string& rule) const {
    refuse(Code::SHAPE, rule + " but has shape " + detail::shape_text(tensor_.shape));
  }
  [[noreturn]] void refuse_unpacked(const std::string& sentence) const {
    refuse(Code::DTYPE, sentence + ": convert the unquantised weights");
  }
  [[noreturn]] void refuse_size() const {
    refuse_shape("must have the " + std::to_string(size()) + " rows of the config's heads");
  }

  // The first dimensions together are the output: [rows], [rows, in]; of a norm also [heads, head_dim].
  std::optional<Change> rows() const {
    std::int64_t product = 1;
    for (const std::int64_t extent : tensor_.shape) {
      product *= extent;
      if (product == size()) return change(Axis::rows);
      if (product > size()) break;
    }
    const bool is_4_bit = projection_.has("weight.absmax") && tensor_.elements() > size();
    if (is_4_bit && tensor_.elements() % size() == 0) return change(Axis::rows);
    refuse_size();
  }

  std::optional<Change> columns() const {
    if (back() != size()) refuse_size();
    return change(Axis::columns);
  }

  // GPTQ packs along the input: [in * bits / 32, rows]. AWQ along the output: [in, rows * bits / 32].
  std::optional<Change> packed_weight() const {
    if (!projection_.quantization.unknown_packing.empty()) {
      refuse_unpacked("must be packed as \"gemm\" of AWQ or \"gptq\" but is packed as " +
                      files::in_quotes(projection_.quantization.unknown_packing));
    }
    if (back() == size()) return change(Axis::columns);
    return packed_numbers();
  }

  std::optional<Change> packed_numbers() const {
    const int bits = projection_.quantization.bits;
    if (tensor_.type != ElementType::i32 || tensor_.shape.size() != 2 || back() * 32 != size() * bits) {
      refuse_shape("must hold " + std::to_string(size()) + " numbers of " + std::to_string(bits) +
                   " bits in each row of I32");
    }
    return change(projection_.awq ? Axis::awq_columns : Axis::packed_columns, bits);
  }

  std::optional<Change> scales() const {
    if (front() == size()) return change(Axis::rows);
    if (projection_.fused && tensor_.elements() == 3) return std::nullopt;  // of q, of k and of v
    if (tensor_.shape.size() != 2) refuse_size();
    const std::int64_t block = projection_.quantization.block != 0 ? projection_.quantization.block : 128;
    if ((size() + block - 1) / block != front()) refuse_size();
    const Sources& sources = *projection_.sources;
    for (std::size_t row = 0; row < sources.size(); ++row) {
      if (static_cast<std::int64_t>(row) / block == static_cast<std::int64_t>(sources[row]) / block) continue;
      refuse(Code::TENSOR, "must have scales for rows that stay among themselves but has one for each " +
                               std::to_string(block) +
                               " rows, which a head's rows leave: convert the unquantised weights");
    }
    return std::nullopt;
  }

  std::optional<Change> zeros() const {
    if (front() == size()) return change(Axis::rows);
    if (tensor_.type == ElementType::i32 && tensor_.shape.size() == 2 && front() > 0 && 32 * front() % size() == 0) {
      return change(Axis::packed_rows, static_cast<int>(32 * front() / size()));
    }
    refuse_size();
  }

  // Blocks of 64 weights lie in one row where their number is a multiple of 64; then a row has scales of its own. With
  // double quantisation the scales share scales across rows.
  void refuse_nested() const {
    if (projection_.has("weight.nested_absmax")) {
      refuse_unpacked(
          "must be quantised once but its scales are quantised too (bnb_4bit_use_double_quant), several rows together");
    }
    const bool is_weight = tensor_.type == ElementType::u8;
    const auto weights = is_weight ? tensor_.elements() * 2 : tensor_.elements() * 64;
    if (weights % (64 * size()) != 0) {
      refuse_unpacked("must have rows of whole blocks of 64 weights but has blocks in several rows");
    }
  }

  const TensorInfo& tensor_;
  const Projection& projection_;
};

}  // namespace

std::optional<Change> change_of(const TensorInfo& tensor, std::string_view suffix, const Projection& projection) {
  const std::string text = plain(suffix);
  const Suffix* row = find(text);
  const Reading reading(tensor, projection);
  if (row == nullptr && tensor.elements() == 1) return std::nullopt;  // of the projection as a whole
  if (row == nullptr) {
    reading.refuse(Code::TENSOR, "must be a known part of a projection but " + files::in_quotes(suffix) + " is none");
  }
  const std::optional<Change> change = reading.read(text, row->kind);
  return tensor.elements() == 0 ? std::nullopt : change;
}

}  // namespace rotary::convert
