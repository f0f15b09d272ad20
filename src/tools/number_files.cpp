#include "number_files.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "files/text/paths.h"
#include "rotary/tensors.h"
#include "values/fail.h"

namespace rotary::tools {
namespace {

template <class T>
NumberFile<T> read(std::string_view file, const std::string& what, const char* types) {
  const Tensor tensor = read_npy(files::path_of(file));
  NumberFile<T> found{.values = {}, .shape = tensor.shape};
  const auto take = [&found](const auto& values) {
    std::ranges::transform(values, std::back_inserter(found.values), [](auto v) { return static_cast<T>(v); });
  };
  constexpr bool reals = std::is_floating_point_v<T>;
  if (tensor.type == ElementType::i64) {
    take(tensor.as<std::int64_t>());
  } else if (tensor.type == ElementType::i32) {
    take(tensor.as<std::int32_t>());
  } else if (tensor.type == ElementType::boolean || tensor.type == ElementType::u8) {
    take(tensor.data);
  } else if (reals && tensor.type == ElementType::f32) {
    take(tensor.as<float>());
  } else if (reals && tensor.type == ElementType::f64) {
    take(tensor.as<double>());
  } else {
    fail(Code::DTYPE, "positions", file, ": ", what, " must be ", types, " but is ", name(tensor.type));
  }
  return found;
}

}  // namespace

NumberFile<std::int64_t> read_integers(std::string_view file, const std::string& what) {
  return read<std::int64_t>(file, what, "bool, uint8, int32 or int64");
}

NumberFile<double> read_reals(std::string_view file, const std::string& what) {
  NumberFile<double> found = read<double>(file, what, "an integer type, float32 or float64");
  const auto odd = std::ranges::find_if_not(found.values, [](double value) { return std::isfinite(value); });
  if (odd != found.values.end())
    fail(Code::POSITION, "positions", file, ": ", what, " must be finite but holds infinity or NaN");
  return found;
}

}  // namespace rotary::tools
