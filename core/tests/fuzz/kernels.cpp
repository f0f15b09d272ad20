// Random shapes, strides, types, tables and ways to walk memory: on every target, rotate, rotate_qk and Table
// give the bits of the reference and of the scalar angles.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "core/tests/support/elements.h"
#include "core/tests/support/guarded.h"
#include "cpu/tuning.h"
#include "fuzz.h"
#include "rotary/reference.h"
#include "rotate/checks.h"

namespace rotary::fuzz {
namespace {

using namespace tests;

// The first bytes seed what is random, so that a change of one changes all; the later ones choose, one thing each.
Random random_of(Choices& choices) {
  const int high = choices.below(256);
  return Random(static_cast<std::uint64_t>(256 * high + choices.below(256)));
}

void walk_memory(Choices& choices) {
  detail::Tuning& tuning = detail::tuning();
  tuning.memory_from = tuning.half_memory_from = choices.coin() ? INT64_MAX : 0;
  tuning.copy_memory_from = choices.coin() ? INT64_MAX : 0;
  tuning.first_cache = choices.coin() ? INT64_MAX : 0;
  tuning.heads_of_part = 1 + choices.below(9);
  tuning.fetched_ahead = choices.coin() ? 1024 : 0;
  tuning.runs_in_place = 1 + choices.below(detail::most_runs);
  tuning.heads = 1 + choices.below(6);
  tuning.table_bytes = choices.coin() ? 0 : 1 << choices.below(18);
}

// One tensor before a call and as the call must leave it. The call gets it at one end of memory between guard pages.
struct Side {
  DType dtype;
  Layout from, to;
  bool in_place, at_end;
  Bytes x, before, wanted;
  Guarded memory_in, memory_out;

  Side(Random& random, DType type, const Layout& sizes, bool stays)
      : dtype(type),
        from(nested_layout(random, sizes, !stays)),
        to(stays ? from : nested_layout(random, sizes, false)),
        in_place(stays),
        at_end(random() % 2 == 0),
        x(hard_values(random, type, extent(from))),
        before(stays ? x : patterned(bytes_of(to, type))),
        wanted(before),
        memory_in(x.size()),
        memory_out(before.size()) {}

  std::byte* place(const Guarded& memory, std::size_t bytes) const {
    return at_end ? memory.at_end(bytes) : memory.at_start();
  }
  void load() const {
    std::copy(x.begin(), x.end(), place(memory_in, x.size()));
    std::copy(before.begin(), before.end(), place(memory_out, before.size()));
  }
  Heads out() const { return {place(memory_out, before.size()), dtype, to}; }
  ConstHeads in() const { return in_place ? ConstHeads(out()) : ConstHeads(place(memory_in, x.size()), dtype, from); }
  InOut part(std::int64_t head, std::int64_t count) const {
    return {detail::heads_of(in(), head, count), detail::heads_of(out(), head, count)};
  }
  // The reference rotates the elements of each head from `first` on, for heads of this range.
  void expect(const Table& table, Direction direction, int first, std::int64_t heads) {
    const ConstHeads source = detail::heads_of(ConstHeads(x.data(), dtype, from), 0, heads);
    const Heads result = detail::heads_of(Heads{wanted.data(), dtype, to}, 0, heads);
    copy_heads(source, result);
    const auto of = [&](const auto& all) { return slice(all, first, all.layout.head_dim - first); };
    if (heads > 0) reference::rotate(of(source), of(result), table, direction);
  }
  void require_wanted(const Table& table, int first, const std::string& what) const {
    Layout turning = to;
    turning.head_dim -= first;
    std::vector<bool> rotated = rotated_elements(turning, table.rotary_dim());
    rotated.insert(rotated.begin(), static_cast<std::size_t>(rotated.empty() ? 0 : first), false);
    const std::string difference = first_difference(out().data, wanted.data(), dtype, extent(to), rotated);
    require(difference.empty(), what + " on " + std::string(chosen_target()) + ": " + difference);
  }
};

void rotate_heads(Choices& choices) {
  Random random = random_of(choices);
  walk_memory(choices);
  const int operation = choices.below(3);
  const DType dtype = dtypes[static_cast<std::size_t>(choices.below(3))];
  const bool in_place = choices.coin();
  const int pairs = 1 + choices.below(choices.below(8) == 0 ? 256 : 70), first = choices.below(4) == 0 ? 2 : 0;
  const auto count = [&](int most) { return choices.below(16) == 15 ? 0 : 1 + choices.below(most); };
  const int all = count(3), tokens = count(6), heads = count(6);
  Layout sizes{all, tokens, heads, first + 2 * pairs + choices.below(9), 0, 0, 0};
  const int batch = choices.coin() ? 1 : std::max(1, static_cast<int>(sizes.batch));
  const Pairing pairing = pairings[static_cast<std::size_t>(choices.below(3))];
  const Table table = operation == 0 ? random_table_of_heads(random, sizes.tokens, pairs, pairing, batch,
                                                             std::max<std::int64_t>(1, sizes.heads))
                                     : random_table(random, sizes.tokens, pairs, pairing, batch);
  RotateOptions options{.direction = directions[static_cast<std::size_t>(choices.below(2))], .first = first};
  options.stores = choices.coin() ? Stores::streaming : Stores::automatic;
  const std::int64_t kv_heads = sizes.heads / 2 - choices.below(2);
  if (operation == 2 && kv_heads < 1) return;
  Side q(random, dtype, sizes, in_place);
  sizes.heads = 1 + choices.below(4);
  Side k(random, dtype, sizes, in_place);
  q.expect(table, options.direction, first, q.to.heads - (operation == 2 ? kv_heads : 0));
  if (operation == 1) k.expect(table, options.direction, first, k.to.heads);
  for (const std::string_view target : running_targets()) {
    const Using forced(target);
    q.load(), k.load();
    if (operation == 0) rotate(q.in(), q.out(), table, options);
    if (operation == 1) rotate_qk({q.in(), q.out()}, {k.in(), k.out()}, table, options);
    if (operation == 2)  // a packed tensor, whose last heads are v's
      rotate_qk(q.part(0, q.to.heads - 2 * kv_heads), q.part(q.to.heads - 2 * kv_heads, kv_heads), table, options);
    q.require_wanted(table, first, "q");
    if (operation == 1) k.require_wanted(table, first, "k");
  }
}

void make_tables(Choices& choices) {
  Random random = random_of(choices);
  Frequencies f = frequencies(
      {.head_dim = 2 + 2 * choices.below(70), .base = 2.0 + 500 * choices.below(256), .pairing = Pairing::half});
  for (double& speed : f.inv_freq) {
    if (choices.below(64) == 1) speed = std::ldexp(static_cast<double>(random() % 4096), choices.below(200) - 150);
  }
  f.attention_factor = choices.coin() ? 1 : std::ldexp(1.0 + choices.below(256) / 97.0, choices.below(140) - 70);
  f.clockwise = choices.coin();
  const int width = choices.below(64);
  std::vector<std::int64_t> whole;
  std::vector<double> real;
  for (int t = choices.below(40); t >= 0; --t) {
    const auto any = static_cast<std::int64_t>(random());
    whole.push_back(any >> width);
    real.push_back(std::ldexp(static_cast<double>(any), -width));
  }
  const bool is_real = choices.coin();
  TableOptions options{choices.below(4) == 0 ? Angles::float32 : Angles::exact,
                       static_cast<Rounding>(choices.below(3))};
  if (options.angles == Angles::float32) f.attention_factor = 1, f.inv_freq_float32.clear();
  std::optional<Table> wanted;
  for (const std::string_view target : running_targets()) {
    const Using forced(target);
    std::optional<Table> table;
    try {
      table.emplace(f, is_real ? Positions(real) : Positions(whole), options);
    } catch (const Error& error) {
      require_refusal(error, "[table] ", {"SCALING", "POSITION", "VALUE"});
      continue;
    }
    if (!wanted) wanted = table;
    const auto same = [](std::span<const float> a, std::span<const float> b) {
      return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
    };
    require(same(table->cos(), wanted->cos()) && same(table->sin(), wanted->sin()), "angles of " + std::string(target));
  }
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  Random random(1);
  for (int i = 0; i < 24; ++i) {
    texts.emplace_back();
    for (int n = 0; n < 32; ++n) texts.back() += static_cast<char>(random());
  }
  return texts;
}

std::vector<std::string> words() { return {std::string(4, '\0'), "\x01\x02", "\x03\x03\x03", "\xFF"}; }

void one(const std::string& input) {
  const detail::Tuning before = detail::tuning();
  Choices choices(input);
  choices.below(4) == 0 ? make_tables(choices) : rotate_heads(choices);
  detail::tuning() = before;
}

}  // namespace rotary::fuzz
