// What operations on the device refuse: the rules and sentences of rotary.h's, and those that are the device's own.
#include <limits>

#include "device_heads.h"
#include "tests/support/checks.h"

namespace rotary::tests {
namespace {

class GpuChecks : public Gpu {
 protected:
  const Device x{8192 * 4}, y{8192 * 4};
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

// ---- rotate ----

TEST_F(GpuChecks, RefusesShapesThatDoNotMatch) {
  expect_error("SHAPE", "[rotate] table has 2 rows but x has 3 tokens",
               [&] { gpu::rotate(in(layout), lvalue(table_of(2, 8))); });
  expect_error("SHAPE", "[rotate] table has 2 rows but x has 3 tokens",
               [&] { gpu::rotate(in(layout), lvalue(table_of(2, 8)), Direction::backward); });
  expect_error("SHAPE", "[rotate] table has 3 batch rows but x has 2",
               [&] { gpu::rotate(in(layout), lvalue(table_of(3, 8, 3))); });
  expect_error("SHAPE", "[rotate] rotary_dim must be at most head_dim 16 but the table's is 18",
               [&] { gpu::rotate(in(layout), lvalue(table_of(3, 9))); });
  expect_error("SHAPE", "[rotate] out must have the shape of x, [2, 3, 4, 16], but got [2, 3, 4, 17]",
               [&] { gpu::rotate(in(layout), out(bthd(2, 3, 4, 17)), lvalue(table_of(3, 8))); });
  Layout negative = layout;
  negative.heads = -1;
  expect_error("SHAPE", "[rotate] sizes must not be negative but got [batch, tokens, heads, head_dim] = [2, 3, -1, 16]",
               [&] { gpu::rotate(in(negative), lvalue(table_of(3, 8))); });
}

TEST_F(GpuChecks, RefusesKindsThatDoNotMatch) {
  expect_error("DTYPE", "[rotate] x and out must have one dtype but got f32 and bf16", [&] {
    gpu::rotate(in(layout), Heads{y.data(), DType::bf16, layout}, lvalue(table_of(3, 8)));
  });
  expect_error("DTYPE", "[rotate] dtype must be f32, f16 or bf16 but got value 9", [&] {
    gpu::rotate(Heads{x.data(), static_cast<DType>(9), layout}, lvalue(table_of(3, 8)));
  });
}

TEST_F(GpuChecks, RefusesPointersThatCannotHoldTheElements) {
  expect_error("SHAPE", "[rotate] x must point to its elements but got null", [&] {
    gpu::rotate(Heads{nullptr, DType::f32, layout}, lvalue(table_of(3, 8)));
  });
  expect_error("DTYPE", "[rotate] x must be aligned to the 4 bytes of f32 but got an address 2 beyond", [&] {
    gpu::rotate(Heads{x.data() + 2, DType::f32, layout}, lvalue(table_of(3, 8)));
  });
}

TEST_F(GpuChecks, RefusesStridesThatOverlapOrOverflow) {
  Layout overlapping = layout, shared = layout, backwards = layout, endless = layout;
  overlapping.head_stride = 15;
  shared.batch_stride = 0;
  backwards.token_stride = -64;
  endless.batch_stride = std::int64_t{1} << 61;
  expect_error("SHAPE", "[rotate] the written elements must be distinct but head_stride 15 steps over 16 elements",
               [&] { gpu::rotate(in(overlapping), lvalue(table_of(3, 8))); });
  EXPECT_THROW(gpu::rotate(in(shared), lvalue(table_of(3, 8))), Error);
  EXPECT_NO_THROW(gpu::rotate(in(shared), out(layout), lvalue(table_of(3, 8)))) << "a broadcast input can be read";
  expect_error("SHAPE", "[rotate] x token_stride must not be negative but got -64",
               [&] { gpu::rotate(in(backwards), lvalue(table_of(3, 8))); });
  expect_error("SHAPE", "[rotate] x must span less than 2^63 bytes but got more",
               [&] { gpu::rotate(in(endless), lvalue(table_of(3, 8))); });
}

TEST_F(GpuChecks, RefusesOverlapOfInputAndOutput) {
  const gpu::Table table = table_of(3, 8);
  expect_error(
      "ALIAS",
      "[rotate] x and out must not overlap, or be the same with the same strides, but out begins 1 elements from x",
      [&] { gpu::rotate(in(layout), at(x, 1, layout), table); });
  EXPECT_THROW(gpu::rotate(at(x, 1, layout), in(layout), table), Error);
  EXPECT_THROW(gpu::rotate(in(layout), in(bhtd(2, 4, 3, 16)), table), Error) << "the same pointer with other strides";
  EXPECT_NO_THROW(gpu::rotate(in(layout), in(layout), table));
  EXPECT_NO_THROW(gpu::rotate(in(layout), at(x, 2 * 3 * 4 * 16, layout), table));
}

TEST_F(GpuChecks, RefusesARotaryDimThatCannotCrossInPlace) {
  const Layout wide = thd(1, 1, 2050);
  const gpu::Table table = table_of(1, 1025, 1, Pairing::interleaved_to_half),
                   most = table_of(1, 1024, 1, Pairing::interleaved_to_half);
  for (const auto& call : {std::function<void()>([&] { gpu::rotate(in(wide), table); }),
                           std::function<void()>([&] { gpu::rotate(in(wide), table, Direction::backward); }),
                           std::function<void()>([&] { gpu::rotate(in(wide), in(wide), table); }),
                           std::function<void()>([&] { gpu::rotate_qk(in(wide), at(x, 3000, wide), table); })}) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(rotary::name(e.code())), "SHAPE");
      EXPECT_NE(std::string(e.what()).find("2048"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("2050"), std::string::npos) << e.what();
    }
  }
  EXPECT_NO_THROW(gpu::rotate(in(wide), out(wide), table));
  EXPECT_NO_THROW(gpu::rotate(in(wide), most));
  EXPECT_NO_THROW(gpu::rotate(in(wide), lvalue(table_of(1, 1025))));
}

// ---- q and k ----

TEST_F(GpuChecks, SaysWhoseRuleItIs) {
  const gpu::Table table = table_of(3, 8);
  expect_error("SHAPE", "[rotate_qk] table has 2 rows but q has 3 tokens",
               [&] { gpu::rotate_qk(in(layout), k(k_layout), lvalue(table_of(2, 8))); });
  expect_error("SHAPE", "[rotate_qk] table has 3 rows but k has 4 tokens",
               [&] { gpu::rotate_qk(in(layout), k(bthd(2, 4, 2, 16)), table, Direction::backward); });
  expect_error("SHAPE", "[rotate_qk] q and k must have one batch but got 2 and 1",
               [&] { gpu::rotate_qk(in(layout), k(bthd(1, 3, 2, 16)), table); });
  expect_error("SHAPE", "[rotate_qk] k_out must have the shape of k, [2, 3, 2, 16], but got [2, 3, 3, 16]", [&] {
    gpu::rotate_qk({in(layout), out(layout)}, {k(k_layout), k_out(bthd(2, 3, 3, 16))}, table);
  });
  expect_error("DTYPE", "[rotate_qk] k and k_out must have one dtype but got f32 and bf16", [&] {
    gpu::rotate_qk({in(layout), out(layout)}, {k(k_layout), Heads{y.data() + 8192, DType::bf16, k_layout}}, table);
  });
  expect_error("SHAPE", "[rotate_qk] k must point to its elements but got null", [&] {
    gpu::rotate_qk(in(layout), Heads{nullptr, DType::f32, k_layout}, table);
  });
  Layout overlapping = k_layout;
  overlapping.head_stride = 15;
  expect_error("SHAPE",
               "[rotate_qk] the written elements of k must be distinct but head_stride 15 steps over 16 elements",
               [&] { gpu::rotate_qk(in(layout), k(overlapping), table); });
}

TEST_F(GpuChecks, RefusesQAndKWhoseElementsMeet) {
  const gpu::Table table = table_of(3, 8);
  expect_error("ALIAS",
               "[rotate_qk] what is written to q must not overlap k but their elements overlap, or interleave with "
               "strides that are not the same",
               [&] { gpu::rotate_qk(in(layout), at(x, 64, k_layout), table); });
  expect_error("ALIAS",
               "[rotate_qk] what is written to q_out must not overlap k but their elements overlap, or interleave "
               "with strides that are not the same",
               [&] {
                 gpu::rotate_qk({in(layout), k(layout)}, {k(k_layout), k_out(k_layout)}, table);
               });
  EXPECT_NO_THROW(gpu::rotate_qk({in(layout), out(layout)}, {in(layout), k_out(layout)}, table))
      << "both may be read from one memory";
  const Layout thirds{2, 3, 4, 16, 3 * 4 * 48, 4 * 48, 48};
  EXPECT_NO_THROW(gpu::rotate_qk(in(thirds), at(x, 16, thirds), table)) << "[batch, tokens, heads, 3, head_dim]";
}

// ---- what says how far to turn ----

constexpr const char* overlap = " but their elements overlap, or interleave with strides that are not the same";

TEST_F(GpuChecks, RefusesToWriteOverTheRows) {
  const auto refuses = [](const std::string& sentence, const auto& call) {
    expect_error("ALIAS", (sentence + overlap).c_str(), call);
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
  expect_error("ALIAS", sentence.c_str(), [&] { gpu::rotate(in(small), at(x, 5)); });
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

Frequencies of_axes(int axes) {
  Frequencies f;
  for (int i = 0; i < 6; ++i) {
    f.inv_freq.push_back(1.0 / (1 + i));
    if (axes > 1) f.axis.push_back(static_cast<std::uint8_t>(i % axes));
  }
  return f;
}

TEST_F(GpuChecks, RefusesPositionsOfOtherAxesOrKinds) {
  const auto* p = x.as<const std::int64_t>();
  const gpu::Frequencies one(with(of_axes(1), Pairing::half)), three(with(of_axes(3), Pairing::half));
  expect_error("SHAPE", "[table] a rope of one axis takes positions of one axis but they have 3",
               [&] { gpu::Table(one, gpu::Positions(p, 4, 3)); });
  expect_error("SHAPE", "[table] the rope's axes are 0 to 2 but the positions have 2 axes",
               [&] { gpu::Table(three, gpu::Positions(p, 4, 2)); });
  expect_error("SHAPE", "[rotation] the rope's axes are 0 to 2 but the positions have 2 axes",
               [&] { gpu::Rotation(three, gpu::Positions(p, 4, 2)); });
  expect_error("POSITION", "[rotation] positions must be integers without a table but got doubles",
               [&] { gpu::Rotation(one, gpu::Positions(x.as<const double>(), 4)); });
  const std::vector<double> endless = {0, std::numeric_limits<double>::infinity()};
  expect_error("POSITION", "[table] positions must be finite but position 1 is inf",
               [&] { gpu::Table(one, Positions(endless)); });
  gpu::TableOptions options;
  options.rounding = static_cast<Rounding>(9);
  expect_error("VALUE", "[table] rounding must be f32, f16 or bf16 but got value 9",
               [&] { gpu::Table(one, gpu::Positions(p, 4), options); });
  expect_error("VALUE", "[table] angles must be exact or float32 but got value 7",
               [&] { gpu::Table(one, gpu::Positions(p, 4), static_cast<Angles>(7)); });
}

TEST_F(GpuChecks, RefusesFrequenciesThatAreNone) {
  Frequencies f;
  const std::string unset =
      "[table] pairing must be half, interleaved or interleaved_to_half but is unset (no default is right for every "
      "model)";
  expect_error("PAIRING", unset.c_str(), [&] { gpu::Frequencies{f}; });
  expect_error("PAIRING", unset.c_str(), [&] { gpu::Frequencies(of_axes(1)); });
  expect_error("SHAPE", "[table] inv_freq must have at least one pair but is empty",
               [&] { gpu::Frequencies(with(f, Pairing::half)); });
  f.inv_freq = {1, std::numeric_limits<double>::infinity()};
  expect_error("SCALING", "[table] inv_freq must be finite but is inf at pair 1",
               [&] { gpu::Frequencies(with(f, Pairing::half)); });
  f.inv_freq = {1, 1};
  f.axis = {0, 1, 2};
  expect_error("SHAPE", "[table] axis must be empty or have one value for each of the 2 pairs but has 3",
               [&] { gpu::Frequencies(with(f, Pairing::half)); });
  f.axis = {};
  f.attention_factor = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THROW(gpu::Frequencies(with(f, Pairing::half)), Error);
}

TEST_F(GpuChecks, RefusesFrequenciesThatHaveMovedAway) {
  gpu::Frequencies moved(with(of_axes(1), Pairing::half));
  const gpu::Positions p(y.as<const std::int64_t>(), 3);
  const gpu::Rotation before(moved, p);
  const gpu::Frequencies taken = std::move(moved);
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
  EXPECT_NO_THROW(table.assign(taken, p));
}

TEST_F(GpuChecks, RefusesTablesWithoutAPairing) {
  const std::string unset =
      "[table] pairing must be half, interleaved or interleaved_to_half but is unset (no default is right for every "
      "model)";
  const std::vector<float> twelve(12);
  const auto* rows = x.as<const float>();
  const gpu::Table none;
  expect_error("PAIRING", unset.c_str(), [&] { gpu::Table(twelve, twelve, 3, Pairing::unset); });
  expect_error("PAIRING", unset.c_str(), [&] { gpu::Table::borrow(rows, rows, 3, Pairing::unset, 4); });
  expect_error("PAIRING", unset.c_str(), [&] { none.host(); });
  expect_error("PAIRING",
               "[rotate] pairing must be half, interleaved or interleaved_to_half but is unset (no default is right "
               "for every model)",
               [&] {
                 gpu::rotate(Heads{nullptr, DType::f32, thd(0, 1, 16)}, none);
               });
}

TEST_F(GpuChecks, RefusesUnknownDirections) {
  const gpu::Table table = table_of(3, 8);
  expect_error("VALUE", "[rotate] direction must be forward or backward but got value 2",
               [&] { gpu::rotate(in(layout), table, static_cast<Direction>(2)); });
  expect_error("VALUE", "[rotate_qk] direction must be forward or backward but got value 2",
               [&] { gpu::rotate_qk(in(layout), k(k_layout), table, static_cast<Direction>(2)); });
}

TEST_F(GpuChecks, RefusesCosAndSinThatAreNoTable) {
  const std::vector<float> twelve(12), eleven(11);
  expect_error("SHAPE", "[table] cos and sin must have the same length but have 12 and 11",
               [&] { gpu::Table(twelve, eleven, 3, Pairing::half); });
  expect_error("SHAPE", "[table] the length of cos must be a multiple of batch * pairs = 3 but is 11",
               [&] { gpu::Table(eleven, eleven, 3, Pairing::half); });
  expect_error("SHAPE", "[table] pairs must be from 1 to 2^30 - 1 but is 0",
               [&] { gpu::Table(twelve, twelve, 0, Pairing::half); });
  const auto* rows = x.as<const float>();
  EXPECT_THROW(gpu::Table::borrow(nullptr, rows, 3, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, reinterpret_cast<const float*>(x.data() + 2), 3, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 0, Pairing::half, 4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 3, Pairing::half, -4), Error);
  EXPECT_THROW(gpu::Table::borrow(rows, rows, 3, Pairing::half, 4, 0), Error);
}

TEST_F(GpuChecks, DoesNotAssignToABorrowedTable) {
  const auto* rows = x.as<const float>();
  const gpu::Frequencies f(with(of_axes(1), Pairing::half));
  gpu::Table borrowed = gpu::Table::borrow(rows, rows + 12, 6, Pairing::half, 2);
  const std::vector<std::int64_t> p = {1, 2};
  for (const auto& call :
       {std::function<void()>([&] { borrowed.assign(f, gpu::Positions(x.as<const std::int64_t>(), 2)); }),
        std::function<void()>([&] { borrowed.assign(f, Positions(p)); })}) {
    try {
      call();
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(rotary::name(e.code())), "ALIAS") << e.what();
    }
  }
  EXPECT_EQ(borrowed.cos(), rows);
  EXPECT_EQ(borrowed.tokens(), 2);
}

}  // namespace
}  // namespace rotary::tests
