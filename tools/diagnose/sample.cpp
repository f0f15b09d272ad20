#include <algorithm>
#include <array>
#include <cmath>

#include "examination.h"
#include "tensors/formats.h"
#include "values/fail.h"

namespace rotary::diagnose {

namespace {

std::string label(const Tensor& tensor) { return tensor.name.empty() ? "the tensor" : "tensor '" + tensor.name + "'"; }

std::vector<double> numbers(const Tensor& tensor) {
  if (!is_float(tensor.type)) {
    fail(Code::DTYPE, "check", label(tensor) + " must be F64, F32, F16 or BF16 but got " + name(tensor.type),
         ": x = x.astype(numpy.float32) * scale; numpy.save(FILE, x) saves the values");
  }
  return files::numbers_of(tensor);
}

bool is_finite(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) { return std::isfinite(value); });
}

constexpr std::array<Storage, 4> storages = {{
    {ElementType::bf16, "bf16", [](double value) -> double { return to_float(to_bf16(static_cast<float>(value))); },
     0x1p-8, 0x1p-133},
    {ElementType::f16, "f16", [](double value) -> double { return to_float(to_f16(static_cast<float>(value))); },
     0x1p-11, 0x1p-24},
    {ElementType::f32, "f32", [](double value) -> double { return static_cast<float>(value); }, 0x1p-24, 0x1p-149},
    {ElementType::f64, "f64", [](double value) { return value; }, 0x1p-53, 0x1p-1074},
}};

}  // namespace

const Storage& storage_of(ElementType type) noexcept { return *std::ranges::find(storages, type, &Storage::type); }

const Storage& coarsest(std::span<const double> values) noexcept {
  return *std::ranges::find_if(storages, [&](const Storage& storage) {
    return std::ranges::all_of(values,
                               [&](double value) { return !std::isfinite(value) || storage.rounded(value) == value; });
  });
}

void bring_near_1(Sample& sample) {
  double largest = 0;
  for (const Elements& values : {sample.before, sample.after}) {
    for (const double value : values) {
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    }
  }
  constexpr double most = 0x1p130, least = 0x1p-150;  // the range of float32 is kept as it is
  if (largest == 0 || (largest <= most && largest >= least)) return;
  const int exponent = -std::ilogb(largest);
  for (Elements* values : {&sample.before, &sample.after}) {
    std::vector<double> near = values->copied();
    for (double& value : near) value = std::ldexp(value, exponent);
    *values = std::move(near);
  }
  sample.least = std::ldexp(sample.least, exponent);
}

Finding find_not_finite(const Sample& sample, const Layout& layout) {
  Finding found = finding(Cause::not_finite);
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    for (std::size_t element = 0; found.numbers.empty() && element < sample.x(first).size(); ++element) {
      for (const bool before : {true, false}) {
        const double value = (before ? sample.x(first) : sample.y(first))[element];
        if (std::isfinite(value) || !found.numbers.empty()) continue;
        found.numbers = {{"when", before ? "before" : "after"}, {"value", value, 3}};
        if (layout.batch > 1) found.numbers.push_back({"batch", number(row / layout.tokens)});
        found.numbers.push_back({"token", number(row % layout.tokens)});
        found.numbers.push_back({"head", number(head)});
        found.numbers.push_back({"element", number(element)});
      }
    }
  });
  return found;
}

const char* type_of(double unit) noexcept {
  return std::ranges::find_if(storages, [=](const Storage& one) { return one.unit <= unit; })->name;
}

Sample Sample::within(const Bounds& bounds) const {
  Sample other = *this;
  static_cast<Bounds&>(other) = bounds;
  return other;
}

Sample Sample::loosened() const {
  return within({std::max(unit, before_unit), std::max(least, before_least), true, noise});
}

Numbers Sample::in_whole(std::size_t dimension, Numbers list) const {
  for (std::int64_t& one : list)
    one = numbers[dimension].empty() ? one : numbers[dimension][static_cast<std::size_t>(one)];
  return list;
}

Sample Sample::part(const Reading& reading, std::size_t dimension, const Numbers& some) const {
  const std::size_t at = reading.word.find("bth"[dimension]);
  if (at == std::string::npos || std::ssize(some) == shape[at]) return *this;
  Sample part = *this;
  part.shape[at] = std::ssize(some);
  part.numbers[dimension] = in_whole(dimension, some);
  std::int64_t inner = 1;
  for (std::size_t d = at + 1; d < shape.size(); ++d) inner *= shape[d];
  for (Elements* elements : {&part.before, &part.after}) {
    std::vector<double> kept;
    for (auto plane = elements->begin(); plane != elements->end(); plane += shape[at] * inner) {
      for (const std::int64_t number : some)
        kept.insert(kept.end(), plane + number * inner, plane + (number + 1) * inner);
    }
    *elements = std::move(kept);
  }
  return part;
}

Sample sample_as_given(const Tensor& before, const Tensor& after, const Subject& subject, bool fits) {
  const int head_dim = fits ? subject.head_dim_of(before) : 0;
  const auto refuse = [](const std::string& sentence) { fail(Code::SHAPE, "check", sentence); };
  const std::string shape = detail::shape_text(before.shape);
  if (before.shape != after.shape) {
    refuse(label(before) + " must have one shape before and after but is " + shape + " before and " +
           detail::shape_text(after.shape) + " after: save both in one layout" +
           (before.shape.size() == after.shape.size()
                ? ""
                : "; from a cache in pages x = pages.reshape(-1, *pages.shape[2:])[slots]; numpy.save(FILE, x)"));
  }
  const std::size_t rank = before.shape.size();
  constexpr std::int64_t widest = 65536;
  if (rank < 2 || rank > 4 || before.elements() == 0 || (head_dim == 0 && before.shape.back() > widest)) {
    refuse(label(before) +
           " must have two to four dimensions, the last of them head_dim, and a token at least but got " + shape);
  }
  Sample sample;
  sample.name = before.name.empty() ? "the tensor" : before.name;
  sample.shape = before.shape;
  const std::int64_t last = before.shape.back();
  sample.head_dim = head_dim != 0 ? head_dim : static_cast<int>(last);
  if (last != sample.head_dim || (subject.layout == "flat" && rank < 4)) {
    if (last % sample.head_dim != 0 || rank == 4) {
      refuse("head_dim must be " + std::to_string(head_dim) + " but " + label(before) + " is " + shape);
    }
    sample.shape.back() = last / sample.head_dim;
    sample.shape.push_back(sample.head_dim);
  }
  sample.before = numbers(before);
  sample.after = numbers(after);
  sample.finite = is_finite(sample.before) && is_finite(sample.after);
  const Storage& storage = coarsest(sample.after);
  sample.unit = storage.unit;
  sample.least = storage.least;
  const Storage& of_before = coarsest(sample.before);
  sample.before_unit = of_before.unit;
  sample.before_least = of_before.least;
  sample.before_type = of_before.name;
  if (before.type == after.type) return sample;
  // A change by the conversion alone is no rotation; it is not undone where each is rounded for itself.
  const bool near = of_before.unit > storage.unit / 16;
  if (!near || of_before.unit >= storage.unit) {
    std::vector<double> rounded(sample.before.size());
    std::ranges::transform(sample.before, rounded.begin(), storage.rounded);
    sample.before = std::move(rounded);
  }
  if (near) sample.before_unit += storage.unit;
  return sample;
}

Sample sample_of(const Tensor& before, const Tensor& after, const Subject& subject) {
  Sample sample = sample_as_given(before, after, subject);
  sample.executor = subject.executor;
  if (subject.beside.empty() || sample.head_dim != subject.used->rope.head_dim) return sample;
  std::vector<double> left = sample.after.copied();
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int element = static_cast<int>(i % static_cast<std::size_t>(sample.head_dim));
    for (const ModelRope* block : subject.beside) {
      const int offset = element - block->first;
      if (offset >= 0 && offset < block->rope.rotary_dim) left[i] = sample.before[i];
    }
  }
  sample.after = std::move(left);
  return sample;
}

}  // namespace rotary::diagnose
