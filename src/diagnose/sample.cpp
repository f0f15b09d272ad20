#include "sample.h"

#include <algorithm>
#include <cmath>

#include "files/tensors/element_types.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

constexpr const char* operation = "diagnose";

std::string label(const Tensor& tensor) { return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'"; }

std::vector<double> numbers(const Tensor& tensor) {
  if (tensor.type != ElementType::f64 && !dtype_of(tensor.type)) {
    fail(Code::DTYPE, operation, label(tensor) + " must be F64, F32, F16 or BF16 but got " + name(tensor.type));
  }
  return files::numbers_of(tensor);
}

std::string first_not_finite(const std::vector<double>& values, const char* when) {
  const auto bad = std::find_if(values.begin(), values.end(), [](double value) { return !std::isfinite(value); });
  if (bad == values.end()) return "";
  return "element " + std::to_string(bad - values.begin()) + " " + when + " is " + detail::significant(*bad, 3);
}

double rounded(double value, ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return to_float(to_bf16(static_cast<float>(value)));
    case ElementType::f16:
      return to_float(to_f16(static_cast<float>(value)));
    case ElementType::f32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

struct Storage {
  ElementType type;
  double unit;
  double least;
};
constexpr std::array<Storage, 4> storages = {{{ElementType::bf16, 0x1p-8, 0x1p-133},
                                              {ElementType::f16, 0x1p-11, 0x1p-24},
                                              {ElementType::f32, 0x1p-24, 0x1p-149},
                                              {ElementType::f64, 0x1p-53, 0x1p-1074}}};

// A bf16 tensor is often saved as f32: the values tell what they were rounded to.
Storage coarsest(std::span<const double> values) {
  for (const Storage& storage : storages) {
    const auto holds = [&](double value) { return !std::isfinite(value) || rounded(value, storage.type) == value; };
    if (std::all_of(values.begin(), values.end(), holds)) return storage;
  }
  return storages.back();
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

void split_heads(Sample& sample, const Tensor& tensor, int head_dim) {
  sample.size.assign(tensor.shape.begin(), tensor.shape.end() - 1);
  const std::int64_t last = tensor.shape.back();
  if (last != head_dim) {
    if (last % head_dim != 0 || sample.size.size() == 3) {
      fail(Code::SHAPE, operation,
           "head_dim must be " + std::to_string(head_dim) + " but " + label(tensor) + " is " +
               detail::shape_text(tensor.shape));
    }
    sample.size.push_back(last / head_dim);
  }
  sample.head_dim = head_dim;
}

}  // namespace

std::int64_t Sample::vectors() const noexcept { return static_cast<std::int64_t>(before.size()) / head_dim; }
std::span<const double> Sample::x(std::int64_t vector) const noexcept {
  return std::span(before).subspan(static_cast<std::size_t>(vector * head_dim), static_cast<std::size_t>(head_dim));
}
std::span<const double> Sample::y(std::int64_t vector) const noexcept {
  return std::span(after).subspan(static_cast<std::size_t>(vector * head_dim), static_cast<std::size_t>(head_dim));
}

Sample make_sample(const Tensor& before, const Tensor& after, int head_dim, Scale scale) {
  if (before.shape != after.shape) {
    fail(Code::SHAPE, operation,
         label(before) + " must have one shape before and after but got " + detail::shape_text(before.shape) + " and " +
             detail::shape_text(after.shape));
  }
  const std::size_t rank = before.shape.size();
  constexpr std::int64_t widest = 65536;
  if (rank < 2 || rank > 4 || before.elements() == 0 || (head_dim == 0 && before.shape.back() > widest)) {
    fail(Code::SHAPE, operation,
         label(before) + " must have two to four dimensions, the last of them head_dim, and elements but got " +
             detail::shape_text(before.shape));
  }
  Sample sample;
  split_heads(sample, before, head_dim != 0 ? head_dim : static_cast<int>(before.shape.back()));
  sample.before = numbers(before);
  sample.after = numbers(after);
  sample.not_finite = first_not_finite(sample.before, "before");
  if (sample.not_finite.empty()) sample.not_finite = first_not_finite(sample.after, "after");
  const Storage storage = coarsest(sample.after);
  sample.type = storage.type;
  sample.unit = storage.unit;
  sample.least = storage.least;
  if (before.type != after.type) {  // what the conversion alone changes is no rotation
    for (double& value : sample.before) value = rounded(value, sample.type);
  }
  if (scale == Scale::near_1) bring_near_1(sample);
  return sample;
}

std::vector<Order> orders_of(const Sample& sample) {
  const std::vector<std::int64_t>& n = sample.size;
  if (n.size() == 3) {
    const std::int64_t outer = n[1] * n[2];
    return {{"bthd", n[0], n[1], n[2], outer, n[2], 1},
            {"bhtd", n[0], n[2], n[1], outer, 1, n[2]},
            {"tbhd", n[1], n[0], n[2], n[2], outer, 1}};
  }
  if (n.size() == 2) return {{"thd", 1, n[0], n[1], 0, n[1], 1}, {"htd", 1, n[1], n[0], 0, 1, n[1]}};
  return {{"td", 1, n[0], 1, 0, 1, 0}, {"hd", 1, 1, n[0], 0, 0, 1}};
}

}  // namespace rotary::diagnose
