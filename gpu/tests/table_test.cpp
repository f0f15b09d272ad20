// Tables on the device against rotary::Table, bit for bit.
#include <cmath>
#include <limits>

#include "core/tests/support/checks.h"
#include "core/tests/support/tables.h"
#include "frequencies.h"

namespace rotary::tests {
namespace {

std::vector<std::int64_t> hard_positions(Random& random, std::size_t count) {
  std::vector<std::int64_t> p{0, 1, -1, 2, 8191, 1 << 20, least32, most32, lowest, largest};
  while (p.size() < count) p.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
  p.resize(count);
  return p;
}

template <class To>
std::vector<To> as(const std::vector<std::int64_t>& p) {
  std::vector<To> converted;
  for (const std::int64_t x : p) converted.push_back(static_cast<To>(x));
  return converted;
}

// ---- the same rows ----

// From positions of the device's memory and of the host's.
template <class P>
void expect_host_rows(Frequencies f, const std::vector<P>& p, const TableOptions& options = {}, int axes = 1,
                      int batch = 1) {
  f.pairing = f.pairing == Pairing::unset ? Pairing::half : f.pairing;
  const gpu::Frequencies on_device(f);
  const gpu::TableOptions on_device_options{options.angles, options.rounding};
  const Table wanted(f, Positions(p, axes, batch), options);
  const Device d(p);
  const gpu::Table from_device(on_device, on<P>(d, wanted.tokens(), axes, batch), on_device_options);
  const gpu::Table from_host(on_device, Positions(p, axes, batch), on_device_options);
  EXPECT_TRUE(same_rows(from_device.host(), wanted)) << "factor " << f.attention_factor;
  EXPECT_TRUE(same_rows(from_host.host(), wanted)) << "positions of the host";
}

class GpuTable : public Gpu {};

TEST_F(GpuTable, HasTheRowsOfTheTableAtAnyPosition) {
  Random random(1);
  for (const auto& [name, f] : frequencies_of_all_kinds()) {
    for (const Rounding rounding : roundings) {
      for (const Angles angles : {Angles::exact, Angles::float32}) {
        SCOPED_TRACE(name + " " + rotary::name(rounding) + " " + rotary::name(angles));
        const Pairing pairing = pairings[random() % 3];
        const gpu::Frequencies on_device(with(f, pairing));
        EXPECT_EQ(on_device.pairs(), static_cast<int>(f.inv_freq.size()));
        EXPECT_EQ(on_device.attention_factor(), f.attention_factor);
        const std::vector<std::int64_t> p = hard_positions(random, 150);
        std::vector<double> real = as<double>(p);
        for (std::size_t i = 10; i < real.size(); ++i) real[i] /= 1 + static_cast<double>(random() % 1000);
        real[4] = -1e-300, real[5] = -0.0;
        if (angles == Angles::exact) real[3] = 1e300;
        order_threads(random);
        expect_host_rows(with(f, pairing), p, {angles, rounding});
        expect_host_rows(with(f, pairing), as<std::int32_t>(p), {angles, rounding});
        expect_host_rows(with(f, pairing), real, {angles, rounding});
      }
    }
  }
}

TEST_F(GpuTable, HasTheRowsOfTheTableForAnyFiniteFrequencyFactorAndFraction) {
  const std::vector<std::int64_t> p = {0, 1, -1, 2, 1000, -12345678901234, lowest, largest};
  const std::vector<double> reals = {0.0, -0.0, 0.5, -1.0 / 3, 5e-324, -1e-200, 0x1p65, 1e290, -1.7976931348623157e308};
  for (const double factor : {1.0, 1 + 0x1p-24, 1e-40, 0x1p-150, 5e-324, 0.0, -0.0, 1e30, 3.4028235677973366e38, -1e300,
                              1e-3, 6e-8, 0x1p-25, 1 + 0x1p-9, 1 + 0x1p-12, 65519.0, 65520.0}) {
    Frequencies f;
    f.inv_freq = any_frequency();
    f.attention_factor = factor;
    f.clockwise = factor > 1;
    for (const Rounding rounding : roundings) {
      expect_host_rows(f, p, {Angles::exact, rounding});
      expect_host_rows(f, reals, {Angles::exact, rounding});
      if (std::fabs(factor) > 1e38) continue;
      f.inv_freq_float32 = {1, 0.25f, 0.3f, 0, -0.3f, 1e-30f, 1e-44f, 100, 1e15f};  // as given
      f.inv_freq_float32.resize(f.inv_freq.size());
      expect_host_rows(f, p, {Angles::float32, rounding});
      f.inv_freq_float32.clear();
    }
  }
}

TEST_F(GpuTable, HasTheRowsOfTheTableForAnyNumberOfTokensPairsAndAxes) {
  Random random(3);
  for (const int pairs : {1, 2, 3, 8, 31, 33, 64, 127, 129, 255, 257, 300, 700, 5003}) {
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      for (const int axes : {1, 3}) {
        if (axes > pairs) continue;
        const std::vector<std::int64_t> p = hard_positions(random, static_cast<std::size_t>(axes) * 2 * 3);
        const Frequencies f = geometric(pairs, 1.0, 0.9, axes);
        EXPECT_EQ(gpu::Frequencies(with(f, Pairing::half)).axes(), axes);
        expect_host_rows(f, p, angles, axes, 2);
        expect_host_rows(f, as<double>(p), angles, axes, 2);
        expect_host_rows(f, p, angles);  // one axis serves a rope of several
      }
    }
  }
  expect_host_rows(geometric(4, 1.0, 0.5, 2), std::vector<double>{3, 5, 1e39}, Angles::float32, 3);  // axis 2 is unused
  const std::vector<std::int64_t> many = rising(-100000, 3001);  // more rows than blocks
  for (const int pairs : {3, 64, 200}) expect_host_rows(geometric(pairs, 1.0, 0.87), many);
}

TEST_F(GpuTable, HasTheRowsOfTheTableWherePairsTurnBySums) {
  Random random(4);
  for (const int axes : {0, 1, 3}) {
    Frequencies f = geometric(24, 2.0, -0.8);
    f.head_rows = 2;
    f.summed_axes = axes;
    if (axes == 0) f.axis = {0, 1, 2, 2, 1, 0, 0, 0, 1, 2, 0, 1};
    const std::size_t count = 10 * static_cast<std::size_t>(f.axes());
    const std::vector<std::int64_t> p = hard_positions(random, count);
    std::vector<double> real = as<double>(p);
    for (double& x : real) x /= 7;
    for (const bool with_phase : {false, true}) {
      SCOPED_TRACE(std::to_string(axes) + " axes, phase " + std::to_string(with_phase));
      if (with_phase) f.phase = geometric(24 / std::max(1, axes), 3.0, 0.7).inv_freq;
      f.clockwise = with_phase;
      f.attention_factor = 1.25;
      order_threads(random);
      expect_host_rows(f, p, {Angles::exact, roundings[random() % 3]}, f.axes());
      expect_host_rows(f, real, {Angles::exact, roundings[random() % 3]}, f.axes());
    }
  }
  Frequencies f = with(geometric(4, 1.0, 0.5), Pairing::half);
  f.summed_axes = 2;
  const Device p(std::vector<double>{1, std::numeric_limits<double>::infinity(), 0x1p-65, 1, 2, 3});
  const Table table = gpu::Table(gpu::Frequencies(f), on<double>(p, 3, 2)).host();
  EXPECT_EQ(table.cos()[0], table.cos()[0]);
  EXPECT_NE(table.cos()[2], table.cos()[2]);
  EXPECT_NE(table.sin()[4], table.sin()[4]);
  const Device whole(std::vector<std::int64_t>{1, 2, 3, 4});
  const gpu::Frequencies sums(f);
  expect_error("SHAPE", "[rotation] rows per head, sums of axes, phases and xpos need a table but got frequencies",
               [&] { gpu::Rotation(sums, on<std::int64_t>(whole, 2, 2)); });
  f.attention_factor = 0;
  const Table zero = gpu::Table(gpu::Frequencies(f), on<double>(p, 3, 2)).host();
  EXPECT_EQ(zero.cos()[0], 0);
  EXPECT_NE(zero.cos()[2], zero.cos()[2]);
}

TEST_F(GpuTable, HasTheRowsOfTheTableWithXPos) {
  Random random(6);
  for (const int heads : {1, 3}) {
    Frequencies f = with(geometric(12 * heads, 2.0, -0.8), Pairing::interleaved);
    f.head_rows = heads;
    for (const XPos& xpos :
         {XPos{512, 0, false}, XPos{512, 0.5, true}, XPos{1.0 / 3, 100.25, false}, XPos{0x1p45, -1e15, true}}) {
      SCOPED_TRACE(::testing::Message() << heads << " heads, scale " << xpos.scale);
      f.xpos = xpos;
      f.phase = xpos.scale == 512 ? std::vector<double>{} : geometric(12, 3.0, 0.7).inv_freq;
      f.clockwise = xpos.reciprocal;
      f.attention_factor = xpos.reciprocal ? -1.25 : 1;
      std::vector<double> p;  // within the powers that the host takes, from the amplitude's end on
      for (int k = 0; k < 40; ++k) {
        const double power = k == 0 ? 69.9 : 66 - static_cast<double>(random() % 10000) * (k % 8 == 0 ? 1 : 0.015);
        p.push_back(xpos.center + (xpos.reciprocal ? power : -power) * xpos.scale);
      }
      const std::vector<std::int64_t> whole(p.begin() + 1, p.end());
      for (const Rounding rounding : roundings) {
        order_threads(random);
        expect_host_rows(f, p, {Angles::exact, rounding});
        expect_host_rows(f, whole, {Angles::exact, rounding});
      }
    }
  }
}

TEST_F(GpuTable, HasNoXPosWhereTheHostRefusesItAndSaysThatItHas) {
  Frequencies f = with(geometric(4, 1.0, 0.5), Pairing::half);
  f.xpos = {2, 10, false};
  const gpu::Frequencies there(f);
  const Device p(std::vector<double>{10, -130, -130.5, std::numeric_limits<double>::infinity(), 0x1p-65, 1e9});
  gpu::Table table(there, on<double>(p, 6));
  EXPECT_TRUE(table.xpos());
  const Table rows = table.host(), wanted(f, {10.0, -130.0, 10.0, 10.0, 10.0, 1e9});
  EXPECT_TRUE(rows.xpos());
  for (std::size_t i = 0; i < 24; ++i) {
    const bool none = i / 4 >= 2 && i / 4 <= 4;
    EXPECT_TRUE(none ? std::isnan(rows.cos()[i]) && std::isnan(rows.sin()[i])
                     : rows.cos()[i] == wanted.cos()[i] && rows.sin()[i] == wanted.sin()[i])
        << i;
  }
  EXPECT_EQ(code_of([&] { table.assign(there, {-130.5, 10.0}); }), Code::POSITION);
  EXPECT_TRUE(table.xpos());
  table.reserve(100, 4);
  EXPECT_TRUE(table.xpos());
  EXPECT_TRUE(same_rows(table.host(), rows));
  table.assign(there, positions(0, 0));
  EXPECT_TRUE(table.xpos());
  table.assign(gpu::Frequencies(with(geometric(4, 1.0, 0.5), Pairing::half)), positions(0, 2));
  EXPECT_FALSE(table.xpos() || table.host().xpos());
  EXPECT_EQ(code_of([&] { gpu::Rotation(there, on<std::int64_t>(p, 1)); }), Code::SHAPE);
}

TEST_F(GpuTable, TakesHostPositionsOfEveryKind) {
  const Frequencies f = with(geometric(9, 1.0, 0.5), Pairing::half);
  const gpu::Frequencies on_device(f);
  const std::vector<std::int32_t> narrow = {7, -3, most32, least32};
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    const auto expect_same = [&](const Positions& p, const char* what) {
      EXPECT_TRUE(same_rows(gpu::Table(on_device, p, angles).host(), Table(f, p, angles))) << what;
    };
    expect_same(5, "a number");
    expect_same(2.5, "a fraction");
    expect_same({5, 6}, "a list");
    expect_same({5.5, 6.25}, "a list of fractions");
    expect_same({narrow, 1, 2}, "two batch rows");
    expect_same(positions(1000, 70), "first and count");
    expect_same(positions(-3, 0), "none");
    expect_same(std::vector<std::int64_t>{1, 2, 3}, "a temporary vector");
  }
}

TEST_F(GpuTable, HasARowOfNanWhereAPositionIsNoneOrAnAngleOverflows) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> p = {1, nan, 3, 4, infinity, -2, 5, -infinity};  // axis 0, axis 1
  Frequencies f = geometric(5, 1.0, 0.5, 2), fast = geometric(2, 1.0, 1e38);
  const Device d(p), far(std::vector<std::int64_t>{2, 100});
  for (const Rounding rounding : roundings) {
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      const Table rows =
          gpu::Table(gpu::Frequencies(with(f, Pairing::half)), on<double>(d, 4, 2), {angles, rounding}).host();
      std::vector<double> finite = p;
      for (double& x : finite) x = std::isfinite(x) ? x : 0;
      const Table wanted(with(f, Pairing::half), Positions(finite, 2), {angles, rounding});
      for (std::size_t i = 0; i < 20; ++i) {
        const bool none = !std::isfinite(p[f.axis[i % 5] * 4 + i / 5]);
        EXPECT_TRUE(none ? std::isnan(rows.cos()[i]) && std::isnan(rows.sin()[i])
                         : rows.cos()[i] == wanted.cos()[i] && rows.sin()[i] == wanted.sin()[i])
            << i;
      }
    }
    const Table rows =
        gpu::Table(gpu::Frequencies(with(fast, Pairing::half)), on<std::int64_t>(far, 2), {Angles::float32, rounding})
            .host();
    EXPECT_TRUE(!std::isnan(rows.cos()[1]) && !std::isnan(rows.cos()[2]));
    EXPECT_TRUE(std::isnan(rows.cos()[3]) && std::isnan(rows.sin()[3]));
  }
}

// ---- a table as a value ----

TEST_F(GpuTable, AssignGivesWhatConstructingAnewGives) {
  Random random(4);
  const std::vector<std::int64_t> p = hard_positions(random, 600);
  const Device d(p);
  const Frequencies few = with(geometric(5, 1.0, 0.5), Pairing::half),
                    many = with(geometric(100, 1.0, 0.95), Pairing::interleaved),
                    axes = with(geometric(12, 1.0, 0.5, 3), Pairing::interleaved_to_half);
  const gpu::Frequencies device_few(few), device_many(many), device_axes(axes);
  gpu::Table table;
  for (const std::int64_t tokens : {1, 7, 200, 3, 0, 200, 1}) {
    const auto first = [&](std::int64_t count) { return std::span(p).first(static_cast<std::size_t>(count)); };
    table.assign(device_few, on<std::int64_t>(d, tokens));
    EXPECT_TRUE(same_rows(table.host(), Table(few, Positions(first(tokens)))));
    table.assign(device_many, Positions(first(2 * tokens), 1, 2));
    EXPECT_TRUE(same_rows(table.host(), Table(many, Positions(first(2 * tokens), 1, 2))));
    table.assign(device_axes, on<std::int64_t>(d, tokens, 3));
    EXPECT_TRUE(same_rows(table.host(), Table(axes, Positions(first(3 * tokens), 3))));
  }
}

TEST_F(GpuTable, IsAsItWasAfterAnAssignThatThrows) {
  const std::vector<std::int64_t> p = {1, 2, 3, 4, 5, 6};
  const std::vector<double> endless = {1, std::numeric_limits<double>::infinity()};
  const Frequencies f = geometric(9, 1.0, 0.5);
  const gpu::Frequencies one(with(f, Pairing::half)), axes(with(geometric(9, 1.0, 0.5, 3), Pairing::interleaved));
  const Device d(p);
  gpu::Table table(one, Positions(p));
  EXPECT_THROW(table.assign(one, on<std::int64_t>(d, 3, 2)), Error);
  EXPECT_THROW(table.assign(axes, on<std::int64_t>(d, 3, 2)), Error);
  EXPECT_THROW(table.assign(one, Positions(endless)), Error);
  EXPECT_THROW(table.assign(one, Positions(p), {Angles::exact, static_cast<Rounding>(7)}), Error);
  EXPECT_THROW(table.assign(axes, Positions(p, 2)), Error);
  EXPECT_EQ(code_of([&] { table.reserve(std::int64_t{1} << 42, 64); }), Code::CUDA) << "memory ends";
  EXPECT_TRUE(same_rows(table.host(), Table(with(f, Pairing::half), Positions(p))));
  table.assign(one, Positions(std::span(p).first(2)));
  EXPECT_TRUE(same_rows(table.host(), Table(with(f, Pairing::half), Positions(std::span(p).first(2)))));
}

TEST_F(GpuTable, FromCosAndSinCopiesThemAndBorrowDoesNot) {
  Random random(5);
  const Table rows = random_table(random, 5, 7, Pairing::interleaved, 2);
  std::vector<float> cos(rows.cos().begin(), rows.cos().end()), sin(rows.sin().begin(), rows.sin().end());
  const Device device_cos(cos, 4), device_sin(sin, 12);
  const gpu::Table copied(cos, sin, 7, Pairing::interleaved, 2);
  const gpu::Table borrowed =
      gpu::Table::borrow(device_cos.as<const float>(), device_sin.as<const float>(), 7, Pairing::interleaved, 5, 2);
  EXPECT_EQ(borrowed.cos(), device_cos.as<const float>());
  EXPECT_EQ(borrowed.sin(), device_sin.as<const float>());
  EXPECT_TRUE(same_rows(copied.host(), rows));
  EXPECT_TRUE(same_rows(borrowed.host(), rows));
  std::fill(cos.begin(), cos.end(), 5.0f);
  device_cos.put(cos.data());
  EXPECT_TRUE(same_rows(copied.host(), rows));
  EXPECT_TRUE(same_rows(borrowed.host(), Table(cos, sin, 7, Pairing::interleaved, 2)));
}

void expect_of_no_tokens(const gpu::Table& table) {
  EXPECT_EQ(table.tokens(), 0);
  EXPECT_EQ(table.batch(), 1);
  EXPECT_EQ(table.pairs(), 0);
  EXPECT_EQ(table.cos(), nullptr);
  EXPECT_EQ(table.sin(), nullptr);
  EXPECT_EQ(table.pairing(), Pairing::unset);
  EXPECT_THROW(table.host(), Error) << "there is no pairing";
}

TEST_F(GpuTable, MovesAsValuesDoAndLeavesATableOfNoTokens) {
  static_assert(std::is_nothrow_move_constructible_v<gpu::Table> && std::is_nothrow_move_assignable_v<gpu::Table>);
  static_assert(std::is_nothrow_move_constructible_v<gpu::Frequencies>);
  const std::vector<std::int64_t> p = {5, 6, 7};
  const Frequencies f = geometric(6, 1.0, 0.5);
  const Table judge(with(f, Pairing::half), Positions(p));
  gpu::Frequencies on_device(with(f, Pairing::half));
  const Device rows{256};
  const auto borrow = [&] {
    return gpu::Table::borrow(rows.as<const float>(), rows.as<const float>(), 6, Pairing::half, 3);
  };
  expect_of_no_tokens(gpu::Table());
  gpu::Table a(on_device, Positions(p)), b(on_device, {8}), borrowed = borrow();
  b = std::move(a);
  EXPECT_TRUE(same_rows(b.host(), judge));
  expect_of_no_tokens(a);  // NOLINT: the state of a moved-from table
  borrowed = std::move(b);
  EXPECT_TRUE(same_rows(borrowed.host(), judge));
  expect_of_no_tokens(b);  // NOLINT
  b.assign(on_device, Positions(p));
  borrowed.assign(on_device, {8});
  b = borrow();
  a = std::move(b);
  expect_of_no_tokens(b);  // NOLINT
  EXPECT_NO_THROW(b.assign(on_device, Positions(p))) << "it borrows nothing any more";
  gpu::Table& itself = b;
  b = std::move(itself);
  EXPECT_TRUE(same_rows(b.host(), judge));
  const gpu::Table constructed = std::move(b);
  EXPECT_TRUE(same_rows(constructed.host(), judge));
#ifdef ROTARY_GPU_EMULATED
  gpu::Table target(on_device, Positions(p)), other(on_device, Positions(p));
  gpu_emulator::reset_counts();
  target = std::move(other);
  EXPECT_EQ(gpu_emulator::counts().frees, 2) << "its rows, and the positions on their way";
#endif
  gpu::Frequencies x(with(geometric(4, 0.3, 0.5), Pairing::interleaved));
  x = std::move(on_device);
  EXPECT_EQ(x.pairing(), Pairing::half);
  EXPECT_EQ(on_device.pairs(), 0);  // NOLINT
  borrowed.assign(x, Positions(p));
  EXPECT_TRUE(same_rows(borrowed.host(), judge));
}

}  // namespace
}  // namespace rotary::tests
