// Calls that operations on the device refuse: the rules and sentences of rotary.h's, and the device's own.
#include <limits>

#include "core/tests/support/checks.h"
#include "core/tests/support/refused_calls.h"
#include "core/tests/support/refused_tables.h"
#include "frequencies.h"

namespace rotary::tests {
namespace {

class GpuChecks : public Gpu {
 protected:
  const Device x{65536}, y{8192 * 4};
  const Layout layout = bthd(2, 3, 4, 16), k_layout = bthd(2, 3, 2, 16);

  static gpu::Table table_of(std::int64_t tokens, int pairs, int batch = 1, Pairing pairing = Pairing::half) {
    return upload(tests::table_of(tokens, pairs, batch, pairing));
  }
  Heads at(const Device& memory, std::int64_t element, const Layout& l) const {
    return {memory.data() + 4 * element, DType::f32, l};
  }
  Heads in(const Layout& l) const { return at(x, 0, l); }
  Heads out(const Layout& l) const { return at(y, 0, l); }
  Heads k(const Layout& l) const { return at(x, 2048, l); }
  Heads k_out(const Layout& l) const { return at(y, 2048, l); }
};

// ---- the rules of rotary.h ----

TEST_F(GpuChecks, RefuseWhatBreaksARuleOfTheHostWithItsSentenceAndNothingElse) {
  const Device rows{4096};
  for (const JudgedCall& judged : JudgedCalls(x.data()).all) {
    const RandomCall& c = judged.call;
    const auto call = [&] {
      const TableShape& t = c.table;
      const auto* values = rows.as<const float>();
      const gpu::Table table = gpu::Table::borrow(values, values, t.pairs, t.pairing, t.tokens, t.batch);
      const Heads &q = c.sides[RandomCall::q], &k = c.sides[RandomCall::k];
      if (c.operation == RandomCall::one) {
        c.in_place ? gpu::rotate(q, table, c.direction)
                   : gpu::rotate(q, c.sides[RandomCall::q_out], table, c.direction);
      } else {
        c.in_place ? gpu::rotate_qk(q, k, table, c.direction)
                   : gpu::rotate_qk(c.q_in_out(), c.k_in_out(), table, c.direction);
      }
    };
    judged.expect(outcome_of(call), c.name());
  }
}

TEST_F(GpuChecks, RefusesARotaryDimThatCannotCrossInPlace) {
  const Layout wide = thd(1, 1, 2050);
  const gpu::Table table = table_of(1, 1025, 1, Pairing::interleaved_to_half),
                   most = table_of(1, 1024, 1, Pairing::interleaved_to_half);
  const std::string sentence = "interleaved_to_half in place takes a rotary_dim of at most 2048 but got 2050";
  for (const Direction direction : directions) {
    expect_error("SHAPE", "[rotate] " + sentence, [&] { gpu::rotate(in(wide), table, direction); });
  }
  expect_error("SHAPE", "[rotate] " + sentence, [&] { gpu::rotate(in(wide), in(wide), table); });
  expect_error("SHAPE", "[rotate_qk] " + sentence, [&] { gpu::rotate_qk(in(wide), at(x, 3000, wide), table); });
  EXPECT_NO_THROW(gpu::rotate(in(wide), out(wide), table));
  EXPECT_NO_THROW(gpu::rotate(in(wide), most));
  EXPECT_NO_THROW(gpu::rotate(in(wide), lvalue(table_of(1, 1025))));
}

// ---- rows, tables and frequencies ----

constexpr const char* overlap = " but their elements overlap, or interleave with strides that are not the same";

TEST_F(GpuChecks, RefusesToWriteOverTheRows) {
  const auto refuses = [](const std::string& sentence, const auto& call) {
    expect_error("ALIAS", sentence + overlap, call);
  };
  const Device elsewhere{4096};
  const auto borrow = [&](const Device& cos, std::int64_t element) {
    return gpu::Table::borrow(cos.as<const float>() + element, elsewhere.as<const float>(), 8, Pairing::half, 3);
  };
  refuses("[rotate] what is written to x must not overlap the table's cos",
          [&] { gpu::rotate(in(layout), lvalue(borrow(x, 16))); });
  refuses("[rotate] what is written to out must not overlap the table's cos",
          [&] { gpu::rotate(in(layout), out(layout), lvalue(borrow(y, 2 * 3 * 4 * 16 - 1)), Direction::backward); });
  refuses("[rotate_qk] what is written to k must not overlap the table's cos",
          [&] { gpu::rotate_qk(in(layout), k(k_layout), lvalue(borrow(x, 2048))); });
  refuses("[rotate_qk] what is written to k_out must not overlap the table's sin", [&] {
    gpu::rotate_qk(
        {in(layout), out(layout)}, {k(k_layout), k_out(k_layout)},
        lvalue(gpu::Table::borrow(elsewhere.as<const float>(), y.as<const float>() + 2048 - 23, 8, Pairing::half, 3)),
        Direction::backward);
  });
  const gpu::Table own = table_of(3, 8);
  refuses("[rotate] what is written to x must not overlap the table's sin", [&] {
    gpu::rotate({const_cast<float*>(own.sin()), DType::f32, bthd(1, 3, 1, 16)}, own);
  });
  EXPECT_NO_THROW(gpu::rotate(in(layout), out(layout), lvalue(borrow(x, 0)))) << "which is only read";
  EXPECT_NO_THROW(gpu::rotate(in(layout), lvalue(borrow(x, 2 * 3 * 4 * 16)))) << "next to it";
  const Layout spaced{1, 1, 3, 16, 0, 0, 40};
  EXPECT_NO_THROW(gpu::rotate(
      in(spaced), lvalue(gpu::Table::borrow(x.as<const float>() + 16, x.as<const float>() + 72, 8, Pairing::half, 1))))
      << "between the heads";
}

TEST_F(GpuChecks, RefusesToWriteOverThePositions) {
  const gpu::Frequencies f(with({{1.0, 0.5}}, Pairing::half));
  const auto at = [&](const Device& memory, std::int64_t element) {
    return gpu::Rotation(f, gpu::Positions(memory.as<const std::int64_t>() + element, 3));
  };
  const std::string sentence = std::string("[rotate] what is written to x must not overlap the positions") + overlap;
  const Layout small = thd(3, 1, 4);
  expect_error("ALIAS", sentence, [&] { gpu::rotate(in(small), at(x, 5)); });
  EXPECT_NO_THROW(gpu::rotate(in(small), at(x, 6)));
  EXPECT_NO_THROW(gpu::rotate(in(small), out(small), at(x, 0)));
  gpu::Table table(f, gpu::Positions(x.as<const std::int64_t>(), 3));
  EXPECT_THROW(table.assign(f, gpu::Positions(reinterpret_cast<const std::int32_t*>(table.cos()), 3)), Error);
  EXPECT_EQ(table.tokens(), 3);
}

// ---- positions, frequencies, tables ----

TEST_F(GpuChecks, RefusesPositionsThatAreNone) {
  const auto* p = x.as<const std::int64_t>();
  expect_error("SHAPE", "[positions] axes must be at least 1 but got 0", [&] { gpu::Positions(p, 4, 0); });
  expect_error("SHAPE", "[positions] batch must be at least 1 but got -1", [&] { gpu::Positions(p, 4, 1, -1); });
  expect_error("SHAPE", "[positions] tokens must not be negative but got -4", [&] { gpu::Positions(p, -4); });
  expect_error("SHAPE", "[positions] positions must point to its elements but got null",
               [&] { gpu::Positions(static_cast<const std::int32_t*>(nullptr), 4); });
  expect_error("DTYPE", "[positions] positions must be aligned to 8 bytes but got an address 4 beyond",
               [&] { gpu::Positions(reinterpret_cast<const double*>(x.data() + 4), 4); });
  EXPECT_THROW(gpu::Positions(p, std::numeric_limits<std::int64_t>::max(), 2), Error);
  EXPECT_NO_THROW(gpu::Positions(static_cast<const double*>(nullptr), 0));
}

TEST_F(GpuChecks, RefusesPositionsOfOtherAxesOrKinds) {
  const auto* p = x.as<const std::int64_t>();
  const gpu::Frequencies one(with(geometric(6, 1.0, 0.5), Pairing::half)),
      three(with(geometric(6, 1.0, 0.5, 3), Pairing::half));
  expect_error("SHAPE", "[table] a rope of one axis takes positions of one axis but they have 3",
               [&] { gpu::Table(one, gpu::Positions(p, 4, 3)); });
  expect_error("SHAPE", "[table] a rope of one axis takes positions of one axis but they have 3", [&] {
    gpu::Table(one, Positions(std::vector<double>{3, 5, 1e39}, 3), Angles::float32);
  });
  expect_error("SHAPE", "[table] the rope's axes are 0 to 2 but the positions have 2 axes",
               [&] { gpu::Table(three, gpu::Positions(p, 4, 2)); });
  expect_error("SHAPE", "[rotation] the rope's axes are 0 to 2 but the positions have 2 axes",
               [&] { gpu::Rotation(three, gpu::Positions(p, 4, 2)); });
  expect_error("POSITION", "[rotation] positions must be integers without a table but got doubles",
               [&] { gpu::Rotation(one, gpu::Positions(x.as<const double>(), 4)); });
  gpu::TableOptions options;
  options.rounding = static_cast<Rounding>(9);
  expect_error("VALUE", "[table] rounding must be f32, f16 or bf16 but got value 9",
               [&] { gpu::Table(one, gpu::Positions(p, 4), options); });
  expect_error("VALUE", "[table] angles must be exact or float32 but got value 7",
               [&] { gpu::Table(one, gpu::Positions(p, 4), static_cast<Angles>(7)); });
}

TEST_F(GpuChecks, RefusesFrequenciesThatHaveMovedAway) {
  gpu::Frequencies moved(with(geometric(6, 1.0, 0.5), Pairing::half));
  const gpu::Positions p(y.as<const std::int64_t>(), 3);
  const gpu::Rotation before(moved, p);
  const gpu::Frequencies target = std::move(moved);
  const std::vector<std::int64_t> host = {1, 2, 3};
  gpu::Table table;
  expect_error("SHAPE", "[table] inv_freq must have at least one pair but is empty", [&] { table.assign(moved, p); });
  expect_error("SHAPE", "[table] inv_freq must have at least one pair but is empty",
               [&] { gpu::Table(moved, Positions(host)); });
  expect_error("SHAPE", "[rotation] inv_freq must have at least one pair but is empty",
               [&] { gpu::Rotation(moved, p); });
  expect_error("SHAPE", "[rotate] inv_freq must have at least one pair but is empty",
               [&] { gpu::rotate(in(thd(3, 1, 16)), before); });
  EXPECT_EQ(moved.turns(), nullptr);
  EXPECT_EQ(moved.pairing(), Pairing::unset);
  EXPECT_EQ(moved.axes(), 1);
  EXPECT_NO_THROW(table.assign(target, p));
}

TEST_F(GpuChecks, RefusesWhatTheHostMakesNoTableOf) {
  for (const RefusedTable& r : refused_tables()) {
    expect_error(r.code, "[table] " + r.sentence,
                 [&] { gpu::Table(gpu::Frequencies(r.f), Positions(r.positions, r.axes), r.angles); });
  }
  const std::vector<float> values(12);
  for (const RefusedRows& r : refused_rows) {
    const auto cos = std::span(values).first(r.cos), sin = std::span(values).first(r.sin);
    expect_error("SHAPE", r.sentence, [&] { gpu::Table(cos, sin, r.pairs, Pairing::half, r.batch); });
  }
  const auto* rows = x.as<const float>();
  EXPECT_THROW(gpu::Table::borrow(nullptr, rows, 3, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, reinterpret_cast<const float*>(x.data() + 2), 3, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 0, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 3, Pairing::half, -4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 3, Pairing::half, 4, 0), Error);
}

TEST_F(GpuChecks, RefusesTablesWithoutAPairing) {
  const auto* rows = x.as<const float>();
  const gpu::Table none;
  const std::string unset =
      "] pairing must be half, interleaved or interleaved_to_half but is unset (no default is right for every model)";
  expect_error("PAIRING", "[table" + unset,
               [&] { gpu::Table(std::vector<float>(12), std::vector<float>(12), 3, Pairing::unset); });
  expect_error("PAIRING", "[table" + unset, [&] { gpu::Table::borrow(rows, rows, 3, Pairing::unset, 4); });
  expect_error("PAIRING", "[table" + unset, [&] { none.host(); });
  expect_error("PAIRING", "[rotate" + unset, [&] { gpu::rotate(Heads{nullptr, DType::f32, thd(0, 1, 16)}, none); });
}

TEST_F(GpuChecks, DoesNotAssignToABorrowedTable) {
  const auto* rows = x.as<const float>();
  const gpu::Frequencies f(with(geometric(6, 1.0, 0.5), Pairing::half));
  gpu::Table borrowed = gpu::Table::borrow(rows, rows + 12, 6, Pairing::half, 2);
  const std::vector<std::int64_t> p = {1, 2};
  const char* const sentence = "[table] a table must own its rows to be assigned but these are borrowed";
  expect_error("ALIAS", sentence, [&] { borrowed.assign(f, gpu::Positions(x.as<const std::int64_t>(), 2)); });
  expect_error("ALIAS", sentence, [&] { borrowed.assign(f, Positions(p)); });
  EXPECT_EQ(borrowed.cos(), rows);
  EXPECT_EQ(borrowed.tokens(), 2);
}

}  // namespace
}  // namespace rotary::tests
