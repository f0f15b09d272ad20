// rotary::gpu where rotary was built without CUDA: one clear error.
#include "gpu/kernels/kernels.h"

namespace rotary::gpu {

bool built() noexcept { return false; }
int devices() noexcept { return 0; }

namespace {

[[noreturn]] void refuse() {
  throw Error("CUDA", "[gpu] rotary was built without CUDA: build it with scripts/build.sh --with cuda");
}

}  // namespace

std::string device_name() { refuse(); }
void synchronize(Stream) { refuse(); }

// ---- values of which there are none, but for empty tables ----

Frequencies::Frequencies(const rotary::Frequencies&, Pairing, Stream) { refuse(); }
Frequencies::Frequencies(Frequencies&&) noexcept = default;
Frequencies& Frequencies::operator=(Frequencies&&) noexcept = default;
Frequencies::~Frequencies() = default;
const std::uint64_t* Frequencies::turns() const noexcept { return nullptr; }
const FrequencyArrays& Frequencies::arrays() const noexcept {
  static constexpr FrequencyArrays none;
  return none;
}

Table::Table(const Frequencies&, const Positions&, const TableOptions&, Stream) { refuse(); }
Table::Table(const Frequencies&, const rotary::Positions&, const TableOptions&, Stream) { refuse(); }
Table::Table(std::span<const float>, std::span<const float>, int, Pairing, int, Stream) { refuse(); }
Table Table::borrow(const float*, const float*, int, Pairing, std::int64_t, int) { refuse(); }
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;
void Table::assign(const Frequencies&, const Positions&, const TableOptions&, Stream) { refuse(); }
void Table::assign(const Frequencies&, const rotary::Positions&, const TableOptions&, Stream) { refuse(); }
void Table::reserve(std::int64_t, int) { refuse(); }
rotary::Table Table::host(Stream) const { refuse(); }

// ---- the verbs ----

void rotate(const Heads&, const Rotation&, Stream) { refuse(); }
void rotate(const ConstHeads&, const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_qk(const Heads&, const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_qk(const ConstHeads&, const Heads&, const ConstHeads&, const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_backward(const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_backward(const ConstHeads&, const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_qk_backward(const Heads&, const Heads&, const Rotation&, Stream) { refuse(); }
void rotate_qk_backward(const ConstHeads&, const Heads&, const ConstHeads&, const Heads&, const Rotation&, Stream) {
  refuse();
}

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

}  // namespace rotary::gpu
