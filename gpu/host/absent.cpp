// rotary::gpu in a build without CUDA: all functions throw the same error.
#include "kernels/kernels.h"
#include "values/fail.h"

namespace rotary::gpu {

bool built() noexcept { return false; }
int devices() noexcept { return 0; }

namespace {

[[noreturn]] void refuse() { fail(Code::CUDA, "gpu", "rotary was built without CUDA: build it with -DROTARY_CUDA=ON"); }

}  // namespace

std::string device_name() { refuse(); }
void synchronize(Stream) { refuse(); }

// ---- frequencies and tables: only empty ones exist ----

struct Frequencies::State {};

Frequencies::Frequencies(const rotary::Frequencies&, Stream) { refuse(); }
Frequencies::Frequencies(Frequencies&&) noexcept = default;
Frequencies& Frequencies::operator=(Frequencies&&) noexcept = default;
Frequencies::~Frequencies() = default;
Pairing Frequencies::pairing() const noexcept { return Pairing::unset; }
int Frequencies::pairs() const noexcept { return 0; }
int Frequencies::head_rows() const noexcept { return 1; }
int Frequencies::axes() const noexcept { return 1; }
double Frequencies::attention_factor() const noexcept { return 1; }
const rotary::Frequencies& Frequencies::host() const noexcept {
  static const rotary::Frequencies none;
  return none;
}
const std::uint64_t* Frequencies::turns() const noexcept { return nullptr; }

struct Table::Memory {};

Table::Table() noexcept = default;
Table::Table(const Frequencies&, const Positions&, const TableOptions&, Stream) { refuse(); }
Table::Table(const Frequencies&, const rotary::Positions&, const TableOptions&, Stream) { refuse(); }
Table::Table(std::span<const float>, std::span<const float>, int, Pairing, int, Stream, int) { refuse(); }
Table Table::borrow(const float*, const float*, int, Pairing, std::int64_t, int, int) { refuse(); }
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;
void Table::assign(const Frequencies&, const Positions&, const TableOptions&, Stream) { refuse(); }
void Table::assign(const Frequencies&, const rotary::Positions&, const TableOptions&, Stream) { refuse(); }
void Table::assign(const Frequencies&, const Positions&, const Frequencies&, const Positions&, const TableOptions&,
                   Stream) {
  refuse();
}
void Table::reserve(std::int64_t, int) { refuse(); }
rotary::Table Table::host(Stream) const { refuse(); }

Table between(const Frequencies&, const Positions&, const Frequencies&, const Positions&, const TableOptions&, Stream) {
  refuse();
}

// ---- operations ----

void rotate(const Heads&, const Rotation&, const RotateOptions&) { refuse(); }
void rotate(const ConstHeads&, const Heads&, const Rotation&, const RotateOptions&) { refuse(); }
void rotate_qk(const Heads&, const Heads&, const Rotation&, const RotateOptions&) { refuse(); }
void rotate_qk(const InOut&, const InOut&, const Rotation&, const RotateOptions&) { refuse(); }

void rms_norm(const ConstHeads&, const Heads&, const Norm&, Stream) { refuse(); }
void append(const ConstHeads&, const ConstHeads&, const Cache&, const Slots&, Stream) { refuse(); }
void rotate_append(const ConstHeads&, const Heads&, const ConstHeads&, const ConstHeads&, const Rotation&, const Cache&,
                   const Slots&, Stream) {
  refuse();
}
void norm_rotate_append(const ConstHeads&, std::int64_t, const Heads&, const Norm&, const Norm&, const Rotation&,
                        const Cache&, const Slots&, Stream) {
  refuse();
}
void shift(const Heads&, const Heads&, const Table&, std::int64_t, std::int64_t, const Sequences&, Stream) { refuse(); }

}  // namespace rotary::gpu
