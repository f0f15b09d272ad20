// Bytes on disk <-> Rope and tensors: config.json, safetensors, npy. Link rotary_files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

// ---- config.json and params.json -----------------------------------------------------------------

// Where a value of a rope came from.
enum class Origin : std::uint8_t {
  given,          // a key of the file
  model_default,  // the file leaves it out: the default of this model_type's own code
  derived,        // computed from other values
};
const char* name(Origin) noexcept;  // "given", "default", "derived"

struct ValueOrigin {
  std::string value;  // "base", "head_dim", "scaling.factor", ...
  Origin origin = Origin::given;
  std::string from;  // the key's path, whose default it is (a model_type; of yarn's details: yarn), or the formula
};

// One rope of a model, and who uses it.
struct ModelRope {
  std::string part;                      // dotted path of the sub-config: "", "text_config", "vision_config"
  std::vector<int> layers;               // indices of the layers that use it
  std::vector<int> layers_without_rope;  // indices of the part's layers that use none
  int heads = 0;
  int kv_heads = 0;
  int first = 0;                          // element of the head where the rotated block begins
  Rope rope;                              // rope.rotary_dim is always filled in
  std::int64_t context = 0;               // max_position_embeddings; 0: the config does not say
  std::vector<ValueOrigin> origins = {};  // one for each value above, and for each value of the scaling
  // Learned: the tensor of the checkpoint whose name is or ends in one of these holds log(rope.multiplier); it is 0
  // at initialisation. Empty: nothing is learned.
  std::vector<std::string> log_multiplier = {};
};

struct Model {
  std::string model_type;
  std::vector<ModelRope> ropes;
  std::vector<std::string> notes;  // every default taken, every dialect chosen, one sentence each
};

struct ConfigOptions {
  std::optional<Pairing> pairing;  // decides where the model_type is unknown, overrides where it is known
  bool class_defaults = false;     // a top level that does not say its layers and heads takes the model_type's own
};

// config.json of Hugging Face or params.json of Mistral and Meta; path is the file or its folder.
// A rope key that nothing consumes is an error. Throws FILE, JSON, CONFIG_KEY, CONFIG_VALUE, CONFIG_MISSING,
// MODEL_TYPE (unknown, and no pairing given).
Model read_config(const std::filesystem::path& path, const ConfigOptions& = {});
Model parse_config(std::string_view json, const ConfigOptions& = {});

// ---- learned frequencies ----

// One value per pair: an .npy, or a safetensors file (its only tensor, or the one named inv_freq or ending in it).
// Throws FILE, FORMAT, TENSOR (none or several, not finite), DTYPE (not F64, F32, F16, BF16), SHAPE.
std::vector<double> read_inv_freq(const std::filesystem::path&);
// model.ropes[rope] turns by inv_freq; from names it in origins and notes. Throws SHAPE.
void set_inv_freq(Model&, std::size_t rope, std::vector<double> inv_freq, const std::string& from);
// What a checkpoint says of the frequencies: weights is model.safetensors, model.safetensors.index.json or the folder
// of either. Reads the multipliers of the ropes that learn one. The inv_freq buffers that older checkpoints carry are
// compared, told in the notes and not used. Throws FILE, FORMAT, JSON, TENSOR, DTYPE, SHAPE.
void apply_weights(Model&, const std::filesystem::path& weights);

// What the program knows of one part of a model_type without a file.
struct KnownModel {
  std::string model_type;             // as the top of a config.json names it
  std::string part;                   // dotted path of the sub-config, "" at the top
  std::vector<ModelRope> ropes = {};  // by the class defaults; sizes that have none are 0, layers then empty
  double partial = 1;                 // where the sizes are 0: the fraction of the head that turns
  std::string fact = {};              // what is surprising about it
  std::string why = {};               // where there are no ropes: why not
  bool rotary = true;                 // false: the model has no rotary positions
};

// Sorted by model_type, then part.
std::vector<KnownModel> known_models();

// ---- tensors in files ----------------------------------------------------------------------------

// Element types by their safetensors names; bits per element and whether npy can hold it.
enum class ElementType : std::uint8_t {
  boolean,
  f4,
  f6_e2m3,
  f6_e3m2,
  u8,
  i8,
  f8_e5m2,
  f8_e4m3,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  c64,
  f64,
  i64,
  u64,
};
const char* name(ElementType) noexcept;  // "BOOL", "F4", ..., "U64"
unsigned bits_of(ElementType) noexcept;
std::optional<DType> dtype_of(ElementType) noexcept;  // f32, f16, bf16 only
ElementType element_type(DType) noexcept;

struct TensorInfo {
  std::string name;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::int64_t elements() const noexcept;
};

// Row-major, little-endian.
struct Tensor : TensorInfo {
  std::vector<std::byte> data;
};

// Reads the header at once, tensors on demand. Every size is proven against the file's length before
// anything is allocated; holes, overlaps, duplicate names and unknown types are refused. Throws FILE, FORMAT, TENSOR.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path&);
  ~SafetensorsFile();
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  const std::vector<TensorInfo>& tensors() const noexcept;  // in the file's order
  const std::map<std::string, std::string>& metadata() const noexcept;
  const TensorInfo* find(std::string_view name) const noexcept;
  Tensor read(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Both write to a temporary file beside path, fsync and rename: path is the old file or the whole new one.
void write_safetensors(const std::filesystem::path&, std::span<const Tensor* const> tensors,
                       const std::map<std::string, std::string>& metadata = {});
// .npy versions 1 to 3, C or Fortran order (read into C order), little- or big-endian (read into little).
// bf16 and the other types that numpy has no spelling for: FORMAT.
Tensor read_npy(const std::filesystem::path&);
void write_npy(const std::filesystem::path&, const Tensor&);

}  // namespace rotary
