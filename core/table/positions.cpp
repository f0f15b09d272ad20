#include "runtime/arithmetic.h"

#include "positions.h"
#include "values/fail.h"

#include <limits>

namespace rotary {

using namespace detail;

void Positions::refuse_integer(std::uint64_t value) {
  fail(Code::POSITION, "positions", "a position must be below 2^63 but got ", value);
}

void Positions::set(Kind kind, const void* data, std::size_t size) {
  if (axes_ < 1) fail(Code::SHAPE, "positions", "axes must be at least 1 but got ", axes_);
  if (batch_ < 1) fail(Code::SHAPE, "positions", "batch must be at least 1 but got ", batch_);
  const auto rows = static_cast<std::uint64_t>(axes_) * static_cast<std::uint64_t>(batch_);
  if (size % rows != 0)
    fail(Code::SHAPE, "positions", "the number of positions must be a multiple of axes * batch = ", rows, " but got ",
         size);
  kind_ = kind;
  data_ = data;
  tokens_ = static_cast<std::int64_t>(size / rows);
}

Positions positions(std::int64_t first, std::int64_t count) {
  if (count < 0) fail(Code::SHAPE, "positions", "count must be at least 0 but got ", count);
  if (count > 0 && first > std::numeric_limits<std::int64_t>::max() - (count - 1))
    fail(Code::POSITION, "positions", "positions must be below 2^63 but got ", count, " from ", first, " on");
  Positions run;
  run.first_ = first;
  run.tokens_ = count;
  return run;
}

PositionValues detail::PositionsAccess::values(const Positions& p, std::vector<std::int64_t>& converted) {
  const auto count =
      static_cast<std::size_t>(p.axes_) * static_cast<std::size_t>(p.batch_) * static_cast<std::size_t>(p.tokens_);
  switch (p.kind_) {
    case Positions::Kind::int64:
      return {static_cast<const std::int64_t*>(p.data_), nullptr};
    case Positions::Kind::real:
      return {nullptr, static_cast<const double*>(p.data_)};
    case Positions::Kind::int32: {
      const auto* narrow = static_cast<const std::int32_t*>(p.data_);
      converted.assign(narrow, narrow + count);
      return {converted.data(), nullptr};
    }
    case Positions::Kind::run:
      converted.resize(count);
      for (std::size_t t = 0; t < count; ++t) converted[t] = p.first_ + static_cast<std::int64_t>(t);
      return {converted.data(), nullptr};
    case Positions::Kind::one_real:
      return {nullptr, &p.real_};
  }
  return {};
}

}  // namespace rotary
