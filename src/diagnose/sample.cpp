#include "sample.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "files/tensors/element_types.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

std::string label(const Tensor& tensor) { return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'"; }

std::vector<double> numbers(const Tensor& tensor) {
  if (!files::is_float(tensor.type)) {
    fail(Code::DTYPE, "diagnose", label(tensor) + " must be F64, F32, F16 or BF16 but got " + name(tensor.type));
  }
  return files::numbers_of(tensor);
}

std::string first_not_finite(const std::vector<double>& values, const char* when) {
  const auto bad = std::ranges::find_if(values, [](double value) { return !std::isfinite(value); });
  if (bad == values.end()) return "";
  return "element " + std::to_string(bad - values.begin()) + " " + when + " is " + detail::significant(*bad, 3);
}

struct Storage {
  double (*rounded)(double);
  double unit;
  double least;
};
constexpr std::array<Storage, 4> storages = {{
    {[](double value) -> double { return to_float(to_bf16(static_cast<float>(value))); }, 0x1p-8, 0x1p-133},
    {[](double value) -> double { return to_float(to_f16(static_cast<float>(value))); }, 0x1p-11, 0x1p-24},
    {[](double value) -> double { return static_cast<float>(value); }, 0x1p-24, 0x1p-149},
    {[](double value) { return value; }, 0x1p-53, 0x1p-1074},
}};

// A bf16 tensor is often saved as f32: the values tell what they were rounded to.
const Storage& coarsest(const std::vector<double>& values) {
  return *std::ranges::find_if(storages, [&](const Storage& storage) {
    return std::ranges::all_of(values,
                               [&](double value) { return !std::isfinite(value) || storage.rounded(value) == value; });
  });
}

// Squares of squares must neither overflow nor vanish: elements of doubles far from 1 are multiplied by a power of two,
// which changes no angle.
void bring_near_1(Sample& sample) {
  double largest = 0;
  for (const std::vector<double>* values : {&sample.before, &sample.after}) {
    for (const double value : *values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  constexpr double most = 0x1p130, least = 0x1p-150;  // the range of float32 is kept as it is
  if (largest == 0 || (largest <= most && largest >= least)) return;
  const int exponent = -std::ilogb(largest);
  for (std::vector<double>* values : {&sample.before, &sample.after}) {
    for (double& value : *values) value = std::ldexp(value, exponent);
  }
  sample.least = std::ldexp(sample.least, exponent);
}

}  // namespace

Sample make_sample(const Tensor& before, const Tensor& after, int head_dim, Scale scale) {
  const auto refuse = [](const std::string& sentence) { fail(Code::SHAPE, "diagnose", sentence); };
  const std::string shape = detail::shape_text(before.shape);
  if (before.shape != after.shape) {
    refuse(label(before) + " must have one shape before and after but got " + shape + " and " +
           detail::shape_text(after.shape));
  }
  const std::size_t rank = before.shape.size();
  constexpr std::int64_t widest = 65536;
  if (rank < 2 || rank > 4 || before.elements() == 0 || (head_dim == 0 && before.shape.back() > widest)) {
    refuse(label(before) + " must have two to four dimensions, the last of them head_dim, and a token at least but got " +
           shape);
  }
  Sample sample;
  sample.name = before.name.empty() ? "the tensor" : before.name;
  sample.shape = before.shape;
  const std::int64_t last = before.shape.back();
  sample.head_dim = head_dim != 0 ? head_dim : static_cast<int>(last);
  if (last != sample.head_dim) {
    if (last % head_dim != 0 || rank == 4) {
      refuse("head_dim must be " + std::to_string(head_dim) + " but " + label(before) + " is " + shape);
    }
    sample.shape.back() = last / head_dim;
    sample.shape.push_back(head_dim);
  }
  sample.before = numbers(before);
  sample.after = numbers(after);
  sample.not_finite = first_not_finite(sample.before, "before");
  if (sample.not_finite.empty()) sample.not_finite = first_not_finite(sample.after, "after");
  const Storage& storage = coarsest(sample.after);
  sample.unit = storage.unit;
  sample.least = storage.least;
  sample.before_unit = coarsest(sample.before).unit;
  if (before.type != after.type) {  // what the conversion alone changes is no rotation
    std::ranges::transform(sample.before, sample.before.begin(), storage.rounded);
  }
  if (scale == Scale::near_1) bring_near_1(sample);
  return sample;
}

}  // namespace rotary::diagnose
