// The public names of enumerators and the library's version.
#include "runtime/arithmetic.h"

#include "names.h"

#include "dtypes.h"
#include "pairings.h"
#include "rotary/rotary.h"

namespace rotary {
namespace {

using detail::Named;

constexpr Named<Pairing> pairings[] = {{Pairing::unset, "unset"},
                                       {Pairing::half, "half"},
                                       {Pairing::interleaved, "interleaved"},
                                       {Pairing::interleaved_to_half, "interleaved_to_half"}};
constexpr std::size_t first_pairing = 1;  // that can be parsed

constexpr Named<Angles> angles[] = {{Angles::exact, "exact"}, {Angles::float32, "float32"}};

constexpr Named<Rounding> roundings[] = {{Rounding::f32, "f32"}, {Rounding::f16, "f16"}, {Rounding::bf16, "bf16"}};

}  // namespace

const char* name(Pairing pairing) noexcept { return detail::name_in(pairings, pairing); }
Pairing parse_pairing(std::string_view text) {
  return detail::parse_in(pairings, text, "parse_pairing", Code::PAIRING, first_pairing);
}

const char* name(Angles value) noexcept { return detail::name_in(angles, value); }
Angles parse_angles(std::string_view text) { return detail::parse_in(angles, text, "parse_angles", Code::VALUE); }

const char* name(Rounding value) noexcept { return detail::name_in(roundings, value); }
Rounding parse_rounding(std::string_view text) {
  return detail::parse_in(roundings, text, "parse_rounding", Code::VALUE);
}

const char* name(DType dtype) noexcept { return detail::name_in(detail::storage_types, dtype); }
DType parse_dtype(std::string_view text) {
  return detail::parse_in(detail::storage_types, text, "parse_dtype", Code::DTYPE);
}
std::size_t size_of(DType dtype) noexcept {
  return detail::is_storage(dtype) ? static_cast<std::size_t>(detail::bytes_of(dtype)) : 0;
}

const char* version() noexcept { return ROTARY_VERSION; }

std::string detail::storage_names() { return list_of(storage_types); }

void detail::check_dtype(const char* operation, DType dtype) {
  if (is_built(dtype)) return;
  if (is_storage(dtype))
    fail(Code::DTYPE, operation, "dtype must be one that this build of rotary has but got ", name(dtype),
         ", which its ROTARY_DTYPES left out");
  fail(Code::DTYPE, operation, "dtype must be ", storage_names(), " but got value ", static_cast<int>(dtype));
}

void detail::check_pairing(const char* operation, Pairing pairing) {
  if (is_set(pairing)) return;
  fail(Code::PAIRING, operation, "pairing must be ", list_of(pairings, first_pairing), " but ",
       pairing == Pairing::unset ? "is unset (no default is right for every model)"
                                 : "got value " + std::to_string(static_cast<int>(pairing)));
}

}  // namespace rotary
