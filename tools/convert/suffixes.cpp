#include <algorithm>

#include "plan.h"

namespace rotary::conversion {
namespace {

using files::is_listed;

enum class Kind : std::uint8_t {
  output,        // rows are elements of the output
  packed,        // qweight of GPTQ and AWQ
  packed_zeros,  // qzeros of both
  scales,        // scales of GPTQ and AWQ, in columns
  block_scales,  // one per block of rows and columns, or one per row
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

// Unsupported formats, of which no file was ever converted and run here. One of these suffixes shows each.
struct UnreadFormat {
  const char* name;
  std::string_view suffixes;
};
constexpr UnreadFormat unread_formats[] = {
    {"bitsandbytes", "SCB weight.absmax weight.quant_map weight.nested_absmax"},
    {"quanto", "weight._data weight._scale"},
    {"MLX", "biases"},
    {"ModelOpt", "weight_scale_2 pre_quant_scale"},
};

// The unsupported format of one of the projection's tensors; empty if there is none.
std::string unread_format(const Projection& projection) {
  const auto has = [&](std::string_view suffix) { return projection.part_of(suffix) != nullptr; };
  for (const UnreadFormat& format : unread_formats)
    if (std::ranges::any_of(files::words(format.suffixes), has)) return format.name;
  return has("scales") && !has("qweight") ? "MLX" : "";
}

// PEFT puts the adapter's name after the module, as in "lora_B.default.weight"; moshi's projections contain a linear.
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

// One tensor of a projection.
class ProjectionTensor {
 public:
  ProjectionTensor(const TensorInfo& tensor, const Projection& projection) : tensor_(tensor), projection_(projection) {}

  std::optional<Change> change(const std::string& suffix, Kind kind) const {
    if (kind == Kind::input) return std::nullopt;
    const bool whole = suffix != "weight" && suffix != "bias" && !suffix.starts_with("lora");
    if (whole && tensor_.elements() == 1) return std::nullopt;  // one for the projection as a whole
    switch (kind) {
      case Kind::packed:
        check_packing();
        bits();
        return back() == size() ? along(Axis::columns) : packed();  // GPTQ: along the input, [in * bits / 32, rows]
      case Kind::packed_zeros:
        return packed();
      case Kind::scales:
        return along(Axis::columns);
      case Kind::block_scales:
        return front() == size() ? along(Axis::rows) : scales_of_blocks();
      case Kind::zeros:
        return zeros();
      default:
        return along(Axis::rows);
    }
  }

  [[noreturn]] void refuse(Code code, const std::string& sentence) const {
    fail(code, operation, "tensor ", in_quotes(tensor_.name), " ", sentence);
  }

 private:
  std::int64_t size() const { return static_cast<std::int64_t>(projection_.sources->size()); }
  std::int64_t front() const { return tensor_.shape.empty() ? 0 : tensor_.shape.front(); }
  std::int64_t back() const { return tensor_.shape.empty() ? 0 : tensor_.shape.back(); }

  [[noreturn]] void refuse_shape(const std::string& rule) const {
    refuse(Code::SHAPE, "must " + rule + " but has shape " + detail::shape_text(tensor_.shape));
  }
  [[noreturn]] void refuse_rows() const {
    refuse_shape("have the " + std::to_string(size()) + " rows of the config's heads");
  }

  // The change, if the tensor obeys both of its rules.
  Change along(Axis axis) const {
    const Change change{axis, 0, projection_.sources};
    if (!has_size(tensor_, change)) refuse_rows();
    const auto bits = static_cast<std::uint64_t>(bits_of(tensor_.type));
    const std::uint64_t row = bits * static_cast<std::uint64_t>(tensor_.elements() / size());
    check_whole_bytes(tensor_, axis == Axis::rows ? row : bits);
    return change;
  }

  // A value of quantization_config, or null.
  files::Json given(const char* key) const {
    const files::Json& config = projection_.quantization;
    return config.contains(key) ? config.at(key) : files::Json();
  }
  [[noreturn]] static void refuse_value(const char* key, const char* rule, const files::Json& value) {
    fail(Code::CONFIG_VALUE, operation, "quantization_config.", key, " must be ", rule, " but got ",
         files::shown(value));
  }

  int bits() const {
    const files::Json value = given("bits").is_null() ? given("w_bit") : given("bits");
    if (value.is_null()) return 4;
    if (!value.is_number_integer() || !can_be_packed(value.get<std::int64_t>()))
      refuse_value("bits", "2, 3, 4 or 8", value);
    return value.get<int>();
  }

  std::int64_t block_rows() const {
    const files::Json value = given("weight_block_size");
    if (value.is_null()) return 128;
    const auto is_count = [](const files::Json& item) { return item.is_number_unsigned() && item > 0; };
    if (!value.is_array() || value.size() != 2 || !is_count(value[0]) || !is_count(value[1]))
      refuse_value("weight_block_size", "two numbers from 1", value);
    return static_cast<std::int64_t>(std::min<std::uint64_t>(value[0].get<std::uint64_t>(), 1U << 30));
  }

  // AWQ's other versions and GPTQ's other formats (gemv, marlin) pack the same numbers in other places.
  void check_packing() const {
    const files::Json& config = projection_.quantization;
    const bool awq = files::string_of(config, "quant_method") == "awq";
    const std::string form = files::string_of(config, awq ? "version" : "checkpoint_format");
    if (form.empty() || is_listed(form, "gemm GEMM gptq gptq_v2")) return;
    refuse(Code::DTYPE, "must be packed as \"gemm\" of AWQ or \"gptq\" but is packed as " + in_quotes(form) +
                            ": convert the unquantised weights");
  }

  // AWQ also packs qweight along the output: [in, rows * bits / 32].
  Change packed() const {
    const TensorInfo* weight = projection_.part_of("qweight");
    const bool awq = weight != nullptr && !weight->shape.empty() && weight->shape.back() != size();
    const Change change{awq ? Axis::awq_columns : Axis::packed_columns, bits(), projection_.sources};
    if (has_size(tensor_, change)) return change;
    refuse_shape("hold " + std::to_string(size()) + " numbers of " + std::to_string(change.bits) +
                 " bits in each row of I32");
  }

  // Scales stay where every row of a block comes from a row of the same block.
  std::optional<Change> scales_of_blocks() const {
    if (projection_.fused && tensor_.elements() == 3) return std::nullopt;  // one for q, for k and for v
    if (tensor_.shape.size() != 2) refuse_rows();
    const std::int64_t block = block_rows();
    if ((size() + block - 1) / block != front()) refuse_rows();
    const Sources& sources = *projection_.sources;
    for (std::size_t row = 0; row < sources.size(); ++row) {
      if (static_cast<std::int64_t>(row) / block == static_cast<std::int64_t>(sources[row]) / block) continue;
      refuse(Code::TENSOR, "must have scales whose blocks of rows stay together but has one for each " +
                               std::to_string(block) +
                               " rows, and rows move to another block: convert the unquantised weights");
    }
    return std::nullopt;
  }

  Change zeros() const {
    for (const int bits : {2, 3, 4, 8}) {
      const Change packed{Axis::packed_rows, bits, projection_.sources};
      if (front() != size() && has_size(tensor_, packed)) return packed;
    }
    if (front() != size()) refuse_rows();
    return along(Axis::rows);
  }

  const TensorInfo& tensor_;
  const Projection& projection_;
};

}  // namespace

std::optional<Change> change_of(const TensorInfo& tensor, std::string_view suffix, const Projection& projection) {
  const ProjectionTensor of_projection(tensor, projection);
  if (const std::string format = unread_format(projection); !format.empty()) {
    of_projection.refuse(Code::DTYPE, "must be of a format that convert reads but is part of " + format +
                                          "'s, which it does not: convert the unquantised weights");
  }
  const std::string text = plain(suffix);
  const auto* row = std::find_if(std::begin(all_suffixes), std::end(all_suffixes),
                                 [&](const Suffixes& known) { return is_listed(text, known.suffixes); });
  const bool known = row != std::end(all_suffixes);
  if (!known && tensor.elements() == 1) return std::nullopt;  // one for the projection as a whole
  if (!known)
    of_projection.refuse(Code::TENSOR,
                         "must be a known tensor of a projection but " + in_quotes(suffix) + " is not known");
  const std::optional<Change> change = of_projection.change(text, row->kind);
  return tensor.elements() == 0 ? std::nullopt : change;
}

}  // namespace rotary::conversion
