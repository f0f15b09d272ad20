// The C interface: each function reads its structs, calls the C++ function of the same name and turns its errors into
// codes.
#include "runtime/arithmetic.h"

#include "rotary/rotary_c.h"

#include <algorithm>
#include <span>
#include <type_traits>

#include "c/guarded.h"
#include "c/structs.h"
#include "rotary/cache.h"
#include "rotary/query_scale.h"
#include "rotary/rotary.h"
#include "rotary/self_test.h"
#include "rotary/targets.h"
#include "rotary/version.h"
#include "rotate/cache_checks.h"

struct rotary_table {
  rotary::Table rows;
};
struct rotary_pool {
  rotary::ThreadPool threads;
};

namespace rotary::c {

template <>
rotary_heads defaults<rotary_heads>() {
  rotary_heads x{};
  x.dtype = ROTARY_F32;
  x.batch = x.tokens = x.heads = 1;
  return x;
}
template <>
rotary_rows defaults<rotary_rows>() {
  rotary_rows r{};
  r.dtype = ROTARY_F32;
  r.head_rows = 1;
  return r;
}
template <>
rotary_options defaults<rotary_options>() {
  rotary_options o{};
  o.direction = ROTARY_FORWARD, o.stores = ROTARY_AUTOMATIC;
  o.parts = 1;
  return o;
}
template <>
rotary_cache defaults<rotary_cache>() {
  rotary_cache c{};
  c.type = ROTARY_CACHE_SAME;
  c.k_scale = c.v_scale = 1;
  return c;
}

namespace {

// ---- a call --------------------------------------------------------------------------------------

struct Operand {
  Heads heads;
  int first = 0;
};

Operand operand(const char* operation, const char* name, const rotary_heads* given) {
  rotary_heads other;
  const rotary_heads& x = fields_of(operation, name, given, other);
  const auto dtype = dtype_constants.as<DType>(operation, x.dtype, name, "'s dtype");
  const Layout layout{x.batch, x.tokens, x.heads, x.head_dim, x.batch_stride, x.token_stride, x.head_stride};
  return {{x.data, dtype, layout}, x.first};
}

// x and where its result goes: in place where out is null or x itself.
struct Pair {
  Operand in, other;
  bool in_place;
  const Heads& out() const noexcept { return in_place ? in.heads : other.heads; }
  InOut in_out() const noexcept { return {in.heads, out()}; }
};

Pair pair(const char* operation, const char* name, const rotary_heads* x, const char* out_name,
          const rotary_heads* out) {
  if (out == nullptr || out == x) return {operand(operation, name, x), {}, true};
  const Pair p{operand(operation, name, x), operand(operation, out_name, out), false};
  if (p.other.first != p.in.first)
    fail(Code::SHAPE, operation, out_name, " must have first ", p.in.first, " as ", name, " has but got ",
         p.other.first);
  return p;
}

std::span<const float> query_scale_of(const char* operation, const rotary_options& o) {
  if (o.query_scale == nullptr && o.query_scales == 0) return {};
  check_given(operation, "query_scale", o.query_scale);
  if (o.query_scales < 1) fail(Code::SHAPE, operation, "query_scales must be at least 1 but got ", o.query_scales);
  if (o.parts != 1) fail(Code::VALUE, operation, "options must not have both a query_scale and parts");
  return {o.query_scale, static_cast<std::size_t>(o.query_scales)};
}

// Calls work(options), or work(options, query_scale).
template <class Work>
void with_options(const char* operation, const rotary_options* given, int first, const Work& work) {
  rotary_options other;
  const rotary_options& o =
      given == nullptr ? other = defaults<rotary_options>() : fields_of(operation, "options", given, other);
  check_reserved(operation, "options", o.reserved);
  const std::span<const float> query_scale = query_scale_of(operation, o);
  const RotateOptions options{.direction = direction_constants.as<Direction>(operation, o.direction, "direction"),
                              .stores = store_constants.as<Stores>(operation, o.stores, "stores"),
                              .first = first,
                              .part = o.part,
                              .parts = o.parts,
                              .executor = o.pool == nullptr ? nullptr : &o.pool->threads};
  if constexpr (std::is_invocable_v<Work, const RotateOptions&, std::span<const float>>) {
    work(options, query_scale);
  } else {
    if (!query_scale.empty())
      fail(Code::VALUE, operation, "options must not have a query_scale, which rotate_qk alone takes");
    work(options);
  }
}

Cache cache_of(const char* operation, const rotary_cache& given) {
  return {.k = given.k,
          .v = given.v,
          .type = cache_constants.as<CacheType>(operation, given.type, "the cache's type"),
          .pages = given.pages,
          .page_size = given.page_size,
          .heads = given.heads,
          .head_dim = given.head_dim,
          .page_stride = given.page_stride,
          .token_stride = given.token_stride,
          .head_stride = given.head_stride,
          .k_scale = given.k_scale,
          .v_scale = given.v_scale,
          .k_offset = given.k_offset,
          .v_head_dim = given.v_head_dim,
          .v_page_stride = given.v_page_stride,
          .v_token_stride = given.v_token_stride,
          .v_head_stride = given.v_head_stride};
}
Sequences sequences_of(const char* operation, const rotary_sequences* sequences) {
  if (sequences == nullptr) return {};
  const rotary_sequences given = read(operation, "sequences", sequences);
  check_reserved(operation, "sequences", given.reserved);
  return {given.indptr, given.indices, given.lengths, given.sequences, given.skip_missing != 0};
}
Slots slots_of(const char* operation, const rotary_cache& cache) {
  Slots slots = Slots::paged(cache.indptr, cache.indices, cache.batch_indices, cache.token_positions, cache.sequences);
  slots.slot = cache.slots, slots.slot_int32 = cache.slots_int32;
  slots.skip_missing = cache.skip_missing != 0;
  if (slots.slot != nullptr || slots.slot_int32 != nullptr || detail::is_paged(slots)) {
    if (cache.firsts != nullptr)
      fail(Code::SHAPE, operation, "slots must be given by firsts, by a slot mapping or by pages, but got several");
    return slots;
  }
  return cache.firsts != nullptr ? Slots::each_row(cache.firsts) : Slots::rows(cache.first);
}

const Table& table_of(const char* operation, const rotary_table* table) {
  check_given(operation, "table", table);
  return table->rows;
}

Rows rows_of(const char* operation, const rotary_rows* given, const rotary_positions* numbers) {
  const rotary_rows r = read(operation, "rows", given);
  const auto dtype = dtype_constants.as<DType>(operation, r.dtype, "dtype");
  const Positions at = positions_of(operation, read(operation, "numbers", numbers));
  const Pairing pairing = pairing_of(operation, r.pairing);
  return {r.cos, r.sin, dtype, r.pairs, pairing, r.stride, r.rows, at, r.head_rows, r.xpos != 0};
}

// Rotates by a Table or by Rows.
template <class By>
void rotate_by(const Pair& x, const By& by, const RotateOptions& options) {
  x.in_place ? rotate(x.in.heads, by, options) : rotate(x.in.heads, x.out(), by, options);
}
template <class By>
void rotate_by(const Pair& q, const Pair& k, const By& by, const RotateOptions& options) {
  q.in_place&& k.in_place ? rotate_qk(q.in.heads, k.in.heads, by, options)
                          : rotate_qk(q.in_out(), k.in_out(), by, options);
}

// q's pair, and k's, which must have the same first.
struct QueriesAndKeys {
  Pair q, k;
};
QueriesAndKeys queries_and_keys(const rotary_heads* q, const rotary_heads* q_out, const rotary_heads* k,
                                const rotary_heads* k_out) {
  const QueriesAndKeys both{pair("rotate_qk", "q", q, "q_out", q_out), pair("rotate_qk", "k", k, "k_out", k_out)};
  const int first = both.q.in.first;
  if (first != both.k.in.first)
    fail(Code::SHAPE, "rotate_qk", "q and k must have one first but got ", first, " and ", both.k.in.first);
  return both;
}

}  // namespace
}  // namespace rotary::c

using namespace rotary;     // NOLINT
using namespace rotary::c;  // NOLINT

extern "C" {

const char* rotary_status_name(rotary_status status) {
  const auto codes = rotary::codes();
  if (status == ROTARY_OK) return "OK";
  if (status < 0 || static_cast<std::size_t>(status) > codes.size()) return "unknown";
  return name(codes[static_cast<std::size_t>(status) - 1]);
}
const char* rotary_error(void) { return last_error(); }
const char* rotary_version(void) { return version(); }
rotary_status rotary_self_test(void) {
  return guarded([] { self_test(); });
}
const char* rotary_target(void) {
  const char* target = nullptr;
  guarded([&] { target = chosen_target().data(); });
  return target;
}
rotary_status rotary_use_target(const char* name) {
  return guarded([&] {
    check_given("use_target", "name", name);
    use_target(name);
  });
}
rotary_status rotary_prepare(void) {
  return guarded([] { prepare(); });
}

void rotary_heads_init(rotary_heads* heads, size_t size) { init(heads, size); }
void rotary_options_init(rotary_options* options, size_t size) { init(options, size); }
void rotary_cache_init(rotary_cache* cache, size_t size) { init(cache, size); }
void rotary_sequences_init(rotary_sequences* sequences, size_t size) { init(sequences, size); }

rotary_status rotary_table_make(const rotary_frequencies* frequencies, int64_t rows, rotary_table** table) {
  return guarded([&] {
    check_given("table", "frequencies", frequencies);
    check_given("table", "table", table);
    const Frequencies& f = frequencies->values;
    const int axes = std::max(1, f.summed_axes);
    const auto some = [&](std::int64_t count) {  // that these frequencies take
      if (axes == 1 && f.xpos.scale == 0) return positions(0, count);
      const std::int64_t values = detail::checked_product("table", positions(0, count).tokens(), axes);
      return Positions(std::vector<double>(static_cast<std::size_t>(values), f.xpos.center), axes);
    };
    *table = new rotary_table{Table(f, some(rows))};
    (*table)->rows.assign(f, some(0));
  });
}
void rotary_table_free(rotary_table* table) { delete table; }
rotary_status rotary_table_assign(rotary_table* table, const rotary_frequencies* frequencies,
                                  const rotary_positions* positions, int32_t angles, int32_t rounding) {
  return guarded([&] {
    check_given("table", "table", table);
    check_given("table", "frequencies", frequencies);
    const rotary_positions at = read("table", "positions", positions);
    table->rows.assign(frequencies->values, positions_of("table", at),
                       {angle_constants.as<Angles>("table", angles, "angles"),
                        dtype_constants.as<Rounding>("table", rounding, "rounding")});
  });
}
rotary_status rotary_table_between(rotary_table* table, const rotary_frequencies* from,
                                   const rotary_positions* from_positions, const rotary_frequencies* to,
                                   const rotary_positions* to_positions, int32_t rounding) {
  return guarded([&] {
    check_given("between", "table", table);
    check_given("between", "from", from);
    check_given("between", "to", to);
    const rotary_positions before = read("between", "from_positions", from_positions);
    const rotary_positions after = read("between", "to_positions", to_positions);
    table->rows.assign_between(from->values, positions_of("between", before), to->values,
                               positions_of("between", after),
                               {Angles::exact, dtype_constants.as<Rounding>("between", rounding, "rounding")});
  });
}
rotary_status rotary_table_borrow(rotary_table* table, const float* cos, const float* sin, int64_t tokens,
                                  int32_t pairs, int32_t pairing, int32_t batch) {
  return guarded([&] {
    check_given("table", "table", table);
    if (tokens < 0 || pairs < 1 || batch < 1 || tokens > (int64_t{1} << 60) / pairs / batch)
      fail(Code::SHAPE, "table", "tokens must not be negative, and pairs and batch at least 1");
    const auto count = static_cast<std::size_t>(tokens * pairs * batch);
    if (count > 0) check_given("table", "cos", cos), check_given("table", "sin", sin);
    table->rows =
        Table::borrow(std::span(cos, count), std::span(sin, count), pairs, pairing_of("table", pairing), batch);
  });
}
void rotary_rows_init(rotary_rows* rows, size_t size) { init(rows, size); }
rotary_status rotary_table_rows(const rotary_table* table, rotary_rows* rows) {
  return guarded([&] {
    const Rows from = table_of("table", table).rows(0);
    rotary_rows to = read("table", "rows", rows);
    to.dtype = ROTARY_F32, to.cos = from.cos, to.sin = from.sin, to.stride = from.stride, to.rows = from.rows;
    to.pairs = from.pairs, to.pairing = pairing_constants.zero + static_cast<std::int32_t>(from.pairing);
    to.head_rows = from.head_rows, to.xpos = from.xpos ? 1 : 0;
    write(rows, to);
  });
}
rotary_status rotary_table_assign_rows(rotary_table* table, const rotary_rows* rows, const rotary_positions* numbers) {
  return guarded([&] {
    check_given("table", "table", table);
    table->rows.assign(rows_of("table", rows, numbers));
  });
}
rotary_status rotary_rows_write(const rotary_frequencies* frequencies, const rotary_positions* positions, void* cos,
                                void* sin, int32_t dtype, int64_t stride, int32_t angles) {
  return guarded([&] {
    const char* const operation = "write_rows";
    check_given(operation, "frequencies", frequencies);
    write_rows(frequencies->values, positions_of(operation, read(operation, "positions", positions)), cos, sin,
               dtype_constants.as<DType>(operation, dtype, "dtype"), stride,
               angle_constants.as<Angles>(operation, angles, "angles"));
  });
}
const float* rotary_table_cos(const rotary_table* t) { return t == nullptr ? nullptr : t->rows.cos().data(); }
const float* rotary_table_sin(const rotary_table* t) { return t == nullptr ? nullptr : t->rows.sin().data(); }
int64_t rotary_table_tokens(const rotary_table* t) { return t == nullptr ? 0 : t->rows.tokens(); }
int32_t rotary_table_pairs(const rotary_table* t) { return t == nullptr ? 0 : t->rows.pairs(); }
int32_t rotary_table_head_rows(const rotary_table* t) { return t == nullptr ? 0 : t->rows.head_rows(); }
int32_t rotary_table_batch(const rotary_table* t) { return t == nullptr ? 0 : t->rows.batch(); }

rotary_status rotary_heads_order(rotary_heads* heads, const char* order) {
  return guarded([&] {
    rotary_heads x = read("heads", "heads", heads);
    check_given("heads", "order", order);
    const std::string_view word = order;
    Layout l;
    if (word == "bthd") {
      l = bthd(x.batch, x.tokens, x.heads, x.head_dim);
    } else if (word == "bhtd") {
      l = bhtd(x.batch, x.heads, x.tokens, x.head_dim);
    } else if (word == "tbhd") {
      l = tbhd(x.tokens, x.batch, x.heads, x.head_dim);
    } else {
      fail(Code::VALUE, "heads", "order must be bthd, bhtd or tbhd but got \"", word, "\"");
    }
    x.batch_stride = l.batch_stride, x.token_stride = l.token_stride, x.head_stride = l.head_stride;
    write(heads, x);
  });
}

rotary_status rotary_pool_make(uint32_t threads, rotary_pool** pool) {
  return guarded([&] {
    check_given("pool", "pool", pool);
    *pool = new rotary_pool{ThreadPool(threads)};
  });
}
void rotary_pool_free(rotary_pool* pool) { delete pool; }

rotary_status rotary_rotate(const rotary_heads* x, const rotary_heads* out, const rotary_table* table,
                            const rotary_options* options) {
  return guarded([&] {
    const Pair p = pair("rotate", "x", x, "out", out);
    with_options("rotate", options, p.in.first,
                 [&](const RotateOptions& o) { rotate_by(p, table_of("rotate", table), o); });
  });
}

rotary_status rotary_rotate_qk(const rotary_heads* q, const rotary_heads* q_out, const rotary_heads* k,
                               const rotary_heads* k_out, const rotary_table* table, const rotary_options* options) {
  return guarded([&] {
    const QueriesAndKeys x = queries_and_keys(q, q_out, k, k_out);
    with_options("rotate_qk", options, x.q.in.first, [&](const RotateOptions& o, std::span<const float> scale) {
      const Table& by = table_of("rotate_qk", table);
      scale.empty() ? rotate_by(x.q, x.k, by, o) : rotate_qk(x.q.in_out(), x.k.in_out(), by, o, scale);
    });
  });
}

rotary_status rotary_rotate_qk_rows(const rotary_heads* q, const rotary_heads* q_out, const rotary_heads* k,
                                    const rotary_heads* k_out, const rotary_rows* rows, const rotary_positions* numbers,
                                    const rotary_options* options) {
  return guarded([&] {
    const Rows by = rows_of("rotate_qk", rows, numbers);
    if (k == nullptr && k_out == nullptr) {
      const Pair p = pair("rotate_qk", "q", q, "q_out", q_out);
      return with_options("rotate_qk", options, p.in.first, [&](const RotateOptions& o) { rotate_by(p, by, o); });
    }
    const QueriesAndKeys x = queries_and_keys(q, q_out, k, k_out);
    with_options("rotate_qk", options, x.q.in.first, [&](const RotateOptions& o) { rotate_by(x.q, x.k, by, o); });
  });
}

rotary_status rotary_latent_rows(rotary_cache* cache, void* rows, int64_t pages, int32_t page_size, int32_t latent_dim,
                                 int32_t rope_dim) {
  return guarded([&] {
    rotary_cache to = read("latent_rows", "cache", cache);
    const Cache made = latent_rows(rows, pages, page_size, latent_dim, rope_dim);
    to.k = made.k, to.v = made.v;
    to.pages = made.pages, to.page_size = made.page_size, to.heads = made.heads, to.head_dim = made.head_dim;
    to.page_stride = made.page_stride, to.token_stride = made.token_stride, to.head_stride = made.head_stride;
    to.k_offset = made.k_offset, to.v_head_dim = made.v_head_dim;
    to.v_page_stride = made.v_page_stride, to.v_token_stride = made.v_token_stride;
    to.v_head_stride = made.v_head_stride;
    write(cache, to);
  });
}

rotary_status rotary_rotate_append(const rotary_heads* q, const rotary_heads* q_out, const rotary_heads* k,
                                   const rotary_heads* v, const rotary_table* table, const rotary_cache* cache,
                                   const rotary_options* options) {
  return guarded([&] {
    const char* const operation = "rotate_append";
    const Pair queries = pair(operation, "q", q, "q_out", q_out);
    const Operand keys = operand(operation, "k", k);
    const Operand values = v == nullptr ? Operand{} : operand(operation, "v", v);
    rotary_cache other;
    const rotary_cache& given = fields_of(operation, "cache", cache, other);
    const Cache to = cache_of(operation, given);
    if (keys.first != 0)
      fail(Code::SHAPE, operation, "k must have first 0 but got ", keys.first, ": give its rotated elements alone");
    const Slots slots = slots_of(operation, given);
    with_options(operation, options, queries.in.first, [&](const RotateOptions& o) {
      rotate_append(queries.in.heads, queries.out(), keys.heads, values.heads, table_of(operation, table), to, slots,
                    o);
    });
  });
}

rotary_status rotary_shift(const rotary_heads* k, const rotary_heads* v, const rotary_table* table, int64_t keep,
                           int64_t drop, const rotary_sequences* sequences, const rotary_options* options) {
  return guarded([&] {
    const char* const operation = "shift";
    const Operand keys = operand(operation, "k", k);
    const Heads values = v == nullptr ? Heads{} : operand(operation, "v", v).heads;
    const Sequences moving = sequences_of(operation, sequences);
    with_options(operation, options, keys.first, [&](const RotateOptions& o) {
      shift(keys.heads, values, table_of(operation, table), keep, drop, moving, o);
    });
  });
}

rotary_status rotary_shift_cache(const rotary_cache* cache, int32_t dtype, const rotary_table* table, int64_t keep,
                                 int64_t drop, const rotary_sequences* sequences, const rotary_options* options) {
  return guarded([&] {
    const char* const operation = "shift";
    const Cache whole = cache_of(operation, read(operation, "cache", cache));
    const auto type = dtype_constants.as<DType>(operation, dtype, "dtype");
    const Sequences moving = sequences_of(operation, sequences);
    with_options(operation, options, 0, [&](const RotateOptions& o) {
      shift(whole, type, table_of(operation, table), keep, drop, moving, o);
    });
  });
}

}  // extern "C"
