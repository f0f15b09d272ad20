#include "suffixes.h"

#include <algorithm>

#include "files/text/io.h"
#include "names.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
namespace {

using files::in_quotes;

enum class Kind : std::uint8_t {
  output,        // the output's elements are its rows
  packed,        // qweight of GPTQ and AWQ
  packed_zeros,  // qzeros of both
  scales,        // of both, in columns
  block_scales,  // one for a block of rows and columns; or one per row
  zeros,         // zero points: one per row, or packed along the rows
  input,         // belongs to the input, or to the tensor as a whole
};

struct Suffixes {
  Kind kind;
  std::string_view suffixes;
};
// transformers, PEFT's LoRA, compressed-tensors, FP8 of DeepSeek, GPTQ, AWQ. parametrizations: jina-embeddings-v3, with
// the LoRAs of its tasks; 0.weight and 1.weight: the adapters of Zamba2; Plora: InternLM-XComposer2.
constexpr Suffixes all_suffixes[] = {
    {Kind::output,
     "weight bias parametrizations.weight.original parametrizations.weight.0.lora_B 1.weight Plora_B.weight "
     "lora_B.weight lora_B.bias lora_magnitude_vector weight_packed"},
    {Kind::input,
     "parametrizations.weight.0.lora_A 0.weight Plora_A.weight lora_A.weight g_idx weight_g_idx weight_shape "
     "weight_global_scale input_scale input_zero_point input_global_scale"},
    {Kind::block_scales, "weight_scale weight_scale_inv scale"},
    {Kind::zeros, "weight_zero_point"},
    {Kind::scales, "scales"},
    {Kind::packed, "qweight"},
    {Kind::packed_zeros, "qzeros"},
};

// Formats that are not read: no file of theirs was ever converted and run here. A suffix tells each.
struct UnreadFormat {
  std::string_view name, suffixes;
};
constexpr UnreadFormat unread_formats[] = {
    {"bitsandbytes", "SCB weight.absmax weight.quant_map weight.nested_absmax"},
    {"quanto", "weight._data weight._scale"},
    {"MLX", "biases"},
    {"ModelOpt", "weight_scale_2 pre_quant_scale"},
    {"AdaLoRA", "lora_E ranknum"},
    {"IA3", "ia3_l"},
    {"LoHa", "hada_w1_a hada_w1_b hada_w2_a hada_w2_b"},
    {"LoKr", "lokr_w1 lokr_w1_a lokr_w1_b lokr_w2 lokr_w2_a lokr_w2_b"},
    {"OFT", "oft_R.weight oft_r"},
    {"BOFT", "boft_R boft_P boft_s"},
    {"HRA", "hra_u"},
    {"VeRA", "vera_lambda_b vera_lambda_d"},
};

const Suffixes* find(std::string_view suffix) {
  for (const Suffixes& row : all_suffixes) {
    if (is_listed(suffix, row.suffixes)) return &row;
  }
  return nullptr;
}

// The format of one of the projection's tensors that is not read; empty: there is none.
std::string_view unread_format(const Projection& projection) {
  for (const UnreadFormat& format : unread_formats) {
    for (std::string_view rest = format.suffixes; !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      if (projection.has(rest.substr(0, end))) return format.name;
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return projection.has("scales") && !projection.has("qweight") ? "MLX" : "";
}

// PEFT puts the adapter's name behind the module, as in "lora_B.default.weight"; moshi's projections hold a linear.
std::string plain(std::string_view suffix) {
  if (suffix.starts_with("linear.")) suffix.remove_prefix(7);
  if (suffix.starts_with("lora_magnitude_vector")) return "lora_magnitude_vector";
  if (!suffix.empty() && suffix[0] >= '0' && suffix[0] <= '9') return std::string(suffix.substr(suffix.find('.') + 1));
  const std::size_t name = suffix.find('.') + 1;
  const std::size_t last = suffix.rfind('.');
  if (suffix.starts_with("lora_") && last != std::string_view::npos && last >= name)
    return std::string(suffix.substr(0, name)) + std::string(suffix.substr(last + 1));
  return std::string(suffix);
}

class PartOfProjection {
 public:
  PartOfProjection(const TensorInfo& tensor, const Projection& projection) : tensor_(tensor), projection_(projection) {}

  std::optional<Change> read(const std::string& suffix, Kind kind) const {
    if (kind == Kind::input) return std::nullopt;
    const bool whole = suffix != "weight" && suffix != "bias" && !suffix.starts_with("lora");
    if (whole && tensor_.elements() == 1) return std::nullopt;  // of the projection as a whole
    switch (kind) {
      case Kind::packed:
        return packed_weight();
      case Kind::packed_zeros:
        return packed_numbers();
      case Kind::scales:
        return sized({Axis::columns, 0, projection_.sources});
      case Kind::block_scales:
        return scales();
      case Kind::zeros:
        return zeros();
      default:
        return sized({Axis::rows, 0, projection_.sources});
    }
  }

  [[noreturn]] void refuse(Code code, const std::string& sentence) const {
    fail(code, "convert", "tensor " + in_quotes(tensor_.name) + " " + sentence);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(projection_.sources->size()); }
  std::int64_t front() const { return tensor_.shape.empty() ? 0 : tensor_.shape.front(); }
  std::int64_t back() const { return tensor_.shape.empty() ? 0 : tensor_.shape.back(); }

  [[noreturn]] void refuse_shape(const std::string& rule) const {
    refuse(Code::SHAPE, rule + " but has shape " + detail::shape_text(tensor_.shape));
  }
  [[noreturn]] void refuse_size() const {
    refuse_shape("must have the " + std::to_string(size()) + " rows of the config's heads");
  }

  // The change, if the tensor obeys the rules of change.h.
  Change sized(const Change& change) const {
    if (!has_size(tensor_, change)) refuse_size();
    const auto bits = static_cast<std::uint64_t>(bits_of(tensor_.type));
    const std::uint64_t row = bits * static_cast<std::uint64_t>(tensor_.elements() / size());
    check_whole_bytes(tensor_, change.axis == Axis::rows ? row : bits, "the rows of a projection");
    return change;
  }

  // Of a value of quantization_config.
  [[noreturn]] static void refuse_value(const char* key, const char* rule, const files::Json& value) {
    fail(Code::CONFIG_VALUE, "convert",
         std::string("quantization_config.") + key + " must be " + rule + " but got " + files::shown(value));
  }

  int bits() const {
    const files::Json& given = projection_.quantization.bits;
    if (given.is_null()) return 4;
    if (!given.is_number_integer() || !can_be_packed(given.get<std::int64_t>()))
      refuse_value("bits", "2, 3, 4 or 8", given);
    return given.get<int>();
  }

  std::int64_t block_rows() const {
    const files::Json& given = projection_.quantization.block;
    if (given.is_null()) return 128;
    const auto is_count = [](const files::Json& item) { return item.is_number_unsigned() && item > 0; };
    if (!given.is_array() || given.size() != 2 || !is_count(given[0]) || !is_count(given[1]))
      refuse_value("weight_block_size", "two numbers from 1", given);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(given[0].get<std::uint64_t>(), 1U << 30));
  }

  // GPTQ packs along the input: [in * bits / 32, rows]. AWQ along the output: [in, rows * bits / 32].
  Change packed_weight() const {
    if (!projection_.quantization.unknown_packing.empty()) {
      refuse(Code::DTYPE, "must be packed as \"gemm\" of AWQ or \"gptq\" but is packed as " +
                              in_quotes(projection_.quantization.unknown_packing) +
                              ": convert the unquantised weights");
    }
    bits();
    return back() == size() ? sized({Axis::columns, 0, projection_.sources}) : packed_numbers();
  }

  Change packed_numbers() const {
    const Change change{projection_.awq ? Axis::awq_columns : Axis::packed_columns, bits(), projection_.sources};
    if (has_size(tensor_, change) && (!projection_.awq || change.bits == 4)) return change;
    refuse_shape("must hold " + std::to_string(size()) + " numbers of " + std::to_string(change.bits) +
                 " bits in each row of I32");
  }

  std::optional<Change> scales() const {
    if (front() == size()) return sized({Axis::rows, 0, projection_.sources});
    if (projection_.fused && tensor_.elements() == 3) return std::nullopt;  // of q, of k and of v
    if (tensor_.shape.size() != 2) refuse_size();
    const std::int64_t block = block_rows();
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

  Change zeros() const {
    if (front() == size()) return sized({Axis::rows, 0, projection_.sources});
    for (const int bits : {2, 3, 4, 8}) {
      const Change packed{Axis::packed_rows, bits, projection_.sources};
      if (has_size(tensor_, packed)) return packed;
    }
    refuse_size();
  }

  const TensorInfo& tensor_;
  const Projection& projection_;
};

}  // namespace

std::optional<Change> change_of(const TensorInfo& tensor, std::string_view suffix, const Projection& projection) {
  const PartOfProjection part(tensor, projection);
  if (const std::string_view format = unread_format(projection); !format.empty()) {
    part.refuse(Code::DTYPE, "must be of a format that convert reads but is part of " + std::string(format) +
                                 "'s, which it does not: convert the unquantised weights, or merge the adapter first");
  }
  const std::string text = plain(suffix);
  const Suffixes* row = find(text);
  if (row == nullptr && tensor.elements() == 1) return std::nullopt;  // of the projection as a whole
  if (row == nullptr)
    part.refuse(Code::TENSOR, "must be a known part of a projection but " + in_quotes(suffix) + " is none");
  const std::optional<Change> change = part.read(text, row->kind);
  return tensor.elements() == 0 ? std::nullopt : change;
}

}  // namespace rotary::conversion
