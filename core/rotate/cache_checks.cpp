#include "runtime/arithmetic.h"

#include "cache_checks.h"

#include <cmath>

namespace rotary::detail {

void check_cache_side(const char* operation, const char* name, const Layout& side, const void* data, std::int64_t bytes,
                      const char* x_name, const Layout& x) {
  if (side.batch < 1 || side.tokens < 1)
    fail(Code::SHAPE, operation, "the cache must have pages of tokens but got ", side.batch, " pages of ", side.tokens);
  if (side.heads != x.heads || side.head_dim != x.head_dim)
    fail(Code::SHAPE, operation, "the cache must have the heads and the head_dim of ", x_name, ", ", x.heads, " and ",
         x.head_dim, ", but got ", side.heads, " and ", side.head_dim);
  const std::int64_t span = checked_extent(operation, side, bytes);
  check_pointer(operation, name, data, static_cast<std::size_t>(bytes));
  check_end(operation, name, data, span);
}

void check_scale(const char* operation, const char* what, float scale) {
  if (std::isfinite(scale) && scale > 0) return;
  fail(Code::VALUE, operation, what, " must be finite and above 0 but got ", scale);
}

void check_kv(const char* operation, const ConstHeads& k, const ConstHeads& v, int v_head_dim) {
  check_readable(operation, "k", k);
  check_readable(operation, "v", v);
  if (v_head_dim != 0 && !has_elements(k.layout) && has_elements(v.layout))
    fail(Code::SHAPE, operation, "v must have no elements where k has none but got ", shape(v.layout));
  Layout expected = k.layout;
  if (v_head_dim != 0) expected.head_dim = v_head_dim;
  if (!same_shape(expected, v.layout) && has_elements(v.layout))
    fail(Code::SHAPE, operation, "v must have the shape of k",
         v_head_dim != 0 ? " with the cache's v_head_dim, " : ", ", shape(expected), ", or no elements, but got ",
         shape(v.layout));
}

void check_k_rows(const char* operation, const Layout& k, int rows) {
  if (rows == 1 || k.heads == rows) return;
  fail(Code::SHAPE, operation, "k must have the ", rows, " heads that the table has rows for but has ", k.heads);
}

// ---- caches in the host's memory ----

namespace {

// The operation reads the scales from memory; they are checked here like the scales given by value.
void check_scales(const char* operation, const Cache& cache) {
  if (cache.type != CacheType::f8_e4m3) return;
  check_aligned(operation, "scales", cache.scales, sizeof(float));
  check_scale(operation, "k_scale", cache.scales != nullptr ? cache.scales[0] : cache.k_scale);
  check_scale(operation, "v_scale", cache.scales != nullptr ? cache.scales[1] : cache.v_scale);
}

void check_row(const char* operation, const Cache& cache, const Layout& k, std::int64_t row, std::int64_t first) {
  if (first < 0) return;
  if (row >= cache.pages)
    fail(Code::SHAPE, operation, "the cache must have a page for each batch row but got ", cache.pages, " pages and ",
         k.batch, " batch rows");
  if (first <= cache.page_size - k.tokens) return;
  fail(Code::SHAPE, operation, "the tokens of batch row ", row, " must end inside its page of ", cache.page_size,
       " tokens but got ", k.tokens, " from ", first, " on");
}

// For Slots::rows: checks that every token except padding has a place.
void check_rows(const char* operation, const Cache& cache, const Slots& slots, const Layout& k) {
  if (mapping_of(slots).data != nullptr || slots.indptr != nullptr)
    fail(Code::SHAPE, operation, "slots must be given by rows, or by a slot mapping or by pages, but got several");
  if (slots.firsts == nullptr && slots.first != Slots::no_first)
    return check_row(operation, cache, k, k.batch - 1, slots.first);
  check_pointer(operation, "the first places", slots.firsts, sizeof(std::int64_t));
  for (std::int64_t row = 0; row < k.batch; ++row) check_row(operation, cache, k, row, slots.firsts[row]);
}

// Adds the cache's k and v to the memory that the call writes.
void check_destination(const char* operation, const ConstHeads& k, const ConstHeads& v, const Cache& cache,
                       const Slots& slots, Writes& written) {
  check_cache_type(operation, cache.type);
  const std::int64_t k_bytes = bytes_of(cached_type(cache.type, k.dtype));
  const std::int64_t v_bytes = bytes_of(cached_type(cache.type, v.dtype));
  check_cache_sides(operation, k, k_bytes, v, v_bytes, cache);
  check_scales(operation, cache);
  slots.by_row ? check_rows(operation, cache, slots, k.layout) : check_slots(operation, slots);
  check_cache_writes(operation, k, v, cache, k_bytes, v_bytes, slots, written);
}

void check_k(const char* operation, const ConstHeads& q, const ConstHeads& k, const Table& table, const Cache& cache) {
  const Layout &a = q.layout, &b = k.layout;
  if (a.batch != b.batch || a.tokens != b.tokens)
    fail(Code::SHAPE, operation, "q and k must have one batch and tokens but got ", shape(a), " and ", shape(b));
  if (table.rotary_dim() > b.head_dim)
    fail(Code::SHAPE, operation, "rotary_dim must be at most k's head_dim ", b.head_dim, " but the table's is ",
         table.rotary_dim());
  const CachedType to = cached_type(cache.type, k.dtype);
  if (b.head_dim > most_staged && (to.f8 || to.dtype != k.dtype))
    fail(Code::SHAPE, operation, "head_dim must be at most ", most_staged,
         " where the cache's type is not k's but got ", b.head_dim);
}

// Whether the rows of the cache hold v and, behind it, k, as those of latent_rows do.
bool has_latent_rows(const Cache& c) noexcept { return c.k_offset > 0 && c.k_offset == c.v_head_dim && c.k == c.v; }

// Checks that k has no elements beside its block, as q has before its own. Throws SHAPE.
void check_k_alone(const char* operation, int first, const Layout& k, int rotary_dim) {
  if (!has_elements(k) || k.head_dim == rotary_dim) return;
  fail(Code::SHAPE, operation, "with first ", first, ", k must be the ", rotary_dim,
       " rotated elements alone, which slice(k, first, ", rotary_dim, ") gives, but its head_dim is ", k.head_dim);
}
// Checks that the block of q ends its heads where the cache has latent rows. A first that was forgotten would rotate
// other elements and break no other rule. Throws SHAPE.
void check_latent_q(const char* operation, int first, const Layout& q, int rotary_dim) {
  if (!has_elements(q)) return;
  if (first + rotary_dim == q.head_dim) return;
  fail(Code::SHAPE, operation, "first must be ", q.head_dim - rotary_dim, ", where the last ", rotary_dim, " of the ",
       q.head_dim, " elements of q's heads begin, in a call with latent rows, but got ", first);
}

// Throws SHAPE if a token that is no padding has no place in the cache. All else about the slots is checked.
template <class Number>
void check_mapping(const char* operation, const Number* slot, std::int64_t tokens, std::int64_t slots) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    if (slot[i] >= slots)
      fail(Code::SHAPE, operation, "slots must be below the cache's ", slots, " but token ", i, " has slot ", slot[i]);
  }
}
void check_pages(const char* operation, const Cache& cache, const Slots& slots, std::int64_t tokens) {
  for (std::int64_t i = 0; i < tokens; ++i) {
    const std::int32_t sequence = slots.batch_indices[i], position = slots.positions[i];
    if (sequence < 0 || position < 0) continue;
    if (sequence >= slots.sequences)
      fail(Code::SHAPE, operation, "batch_indices must be below the ", slots.sequences, " sequences but token ", i,
           " has ", sequence);
    const std::int64_t entry = std::int64_t{slots.indptr[sequence]} + position / cache.page_size;
    if (entry < 0 || entry >= slots.indptr[sequence + 1])
      fail(Code::SHAPE, operation, "positions must lie in their sequence's pages but token ", i, " of sequence ",
           sequence, " has ", position);
    const std::int32_t page = slots.indices[entry];
    if (page < 0 || page >= cache.pages)
      fail(Code::SHAPE, operation, "indices must be pages of the cache, from 0 to ", cache.pages - 1, ", but token ", i,
           " has page ", page);
  }
}
void check_places(const char* operation, const Cache& cache, const Slots& slots, const Layout& k) {
  if (slots.skip_missing || slots.by_row || !has_elements(k)) return;
  const std::int64_t tokens = k.batch * k.tokens;
  if (is_paged(slots)) return check_pages(operation, cache, slots, tokens);
  const std::int64_t count = product(cache.pages, cache.page_size);
  if (slots.slot != nullptr) return check_mapping(operation, slots.slot, tokens, count);
  check_mapping(operation, slots.slot_int32, tokens, count);
}

// ---- calls that clearly keep all rules: with a slot mapping, and arguments whose ranges lie apart ----
// One predicate without error sentences, like make_job in checks.cpp. If it is false, the checks above decide.

// Whether each of the others lies apart from the range. Branchless: nearly always all of them do.
template <class... Others>
bool all_apart(const Range& range, const Others&... others) noexcept {
  return (static_cast<int>(range.apart(others)) & ...) != 0;
}
struct Ranges {
  Range k, v, slots, k_cache, v_cache;
};

// The range of one side of a cache with pages outermost, and heads and tokens in either order; `row` elements of each
// head belong to the cache.
bool lies_in_pages(const Layout& l, std::int64_t row, const void* data, std::int64_t bytes, Range& range) noexcept {
  std::int64_t extent = row;
  const auto steps_over = [&](std::int64_t count, std::int64_t stride) {
    return count == 1 || (stride >= extent && extend(extent, count, stride));
  };
  const bool heads_first = l.tokens == 1 || l.head_stride <= l.token_stride;
  return (!heads_first || steps_over(l.heads, l.head_stride)) && steps_over(l.tokens, l.token_stride) &&
         (heads_first || steps_over(l.heads, l.head_stride)) && steps_over(l.batch, l.batch_stride) &&
         lies_at(data, extent, bytes, range);
}
// Whether both sides of a cache with latent rows are one range.
bool is_one_range(const Cache& c, std::int64_t k_bytes, std::int64_t v_bytes) noexcept {
  return has_latent_rows(c) && k_bytes == v_bytes && c.page_stride == c.v_page_stride &&
         c.token_stride == c.v_token_stride && c.head_stride == c.v_head_stride;
}
bool writes(const Cache& c, const Layout& k_pages, const Layout& v_pages, DType k, DType v, Range& k_cache,
            Range& v_cache) noexcept {
  if (c.type > CacheType::bf16 || c.type == CacheType::f8_e4m3 || c.pages < 1 || c.page_size < 1) return false;
  const std::int64_t k_bytes = bytes_of(cached_type(c.type, k)), v_bytes = bytes_of(cached_type(c.type, v));
  if (is_one_range(c, k_bytes, v_bytes)) {
    v_cache = {0, 0};  // a part of k_cache
    return lies_in_pages(k_pages, std::int64_t{c.k_offset} + c.head_dim, c.k, k_bytes, k_cache);
  }
  return c.k_offset == 0 && lies_in_pages(k_pages, c.head_dim, c.k, k_bytes, k_cache) &&
         lies_in_pages(v_pages, v_pages.head_dim, c.v, v_bytes, v_cache);
}

bool plainly_sound(const ConstHeads& k, const ConstHeads& v, const Cache& c, const Slots& s, Ranges& r) noexcept {
  const Layout &l = k.layout, &lv = v.layout, k_pages = k_layout(c), v_pages = v_layout(c);
  return !s.by_row && !is_paged(s) && readable(k, r.k) && readable(v, r.v) && l.batch == lv.batch &&
         l.tokens == lv.tokens && l.heads == lv.heads && c.heads == l.heads && c.head_dim == l.head_dim &&
         lv.head_dim == v_pages.head_dim && writes(c, k_pages, v_pages, k.dtype, v.dtype, r.k_cache, r.v_cache) &&
         (s.slot == nullptr || s.slot_int32 == nullptr) &&
         lies_at(mapping_of(s).data, product(l.batch, l.tokens), mapping_of(s).slot_bytes, r.slots) &&
         all_apart(r.k_cache, r.k, r.v, r.slots, r.v_cache) && all_apart(r.v_cache, r.k, r.v, r.slots);
}

// The same with q, whose own rules hold. The table's cos and sin count as one range: they lie side by side unless they
// are borrowed.
bool plainly_sound(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                   const Table& table, const Cache& c, const Slots& s) noexcept {
  const Layout &a = q.layout, &b = k.layout;
  Ranges r;
  Range from, to;
  if (a.batch != b.batch || a.tokens != b.tokens || table.rotary_dim() > b.head_dim || b.head_dim > most_staged ||
      !plainly_sound(k, v, c, s, r) || !readable(q_out, to)) {
    return false;
  }
  const Range rows{address_of(table.cos().data()), address_of(table.sin().data() + table.sin().size())};
  return address_of(table.sin().data()) >= rows.begin && all_apart(to, r.k, r.v, r.slots, rows) &&
         all_apart(r.k_cache, to, rows) && all_apart(r.v_cache, to, rows) &&
         (q.data == q_out.data || (readable(q, from) && all_apart(from, r.k_cache, r.v_cache)));
}

}  // namespace

void check_cache_type(const char* operation, CacheType type) {
  if (type <= CacheType::bf16) return;
  fail(Code::DTYPE, operation, "the cache must be same, f8_e4m3, f32, f16 or bf16 but got value ",
       static_cast<int>(type));
}

void check_append(const char* operation, const ConstHeads& k, const ConstHeads& v, const Cache& cache,
                  const Slots& slots) {
  Ranges all;
  if (plainly_sound(k, v, cache, slots, all)) return check_places(operation, cache, slots, k.layout);
  check_kv(operation, k, v, cache.v_head_dim);
  if (!has_elements(k.layout)) return;
  Writes written;
  check_destination(operation, k, v, cache, slots, written);
  check_places(operation, cache, slots, k.layout);
}

void check_rotate_append(const char* operation, const ConstHeads& q, const Heads& q_out, const ConstHeads& k,
                         const ConstHeads& v, const Table& table, const Cache& cache, const Slots& slots,
                         const RotateOptions& options, Job& job) {
  const Names names{operation, "q", "q_out", " of q"};
  if (table.xpos()) refuse_xpos(operation);
  if (options.first == 0) {
    check_rotate(names, q, q_out, table, options.direction, job);
  } else {
    check_rotate(names, behind(operation, q, options.first), behind(operation, q_out, options.first), table,
                 options.direction, job);
    check_k_alone(operation, options.first, k.layout, table.rotary_dim());
  }
  if (has_latent_rows(cache)) check_latent_q(operation, options.first, q.layout, table.rotary_dim());
  if (plainly_sound(q, q_out, k, v, table, cache, slots)) return check_places(operation, cache, slots, k.layout);
  check_kv(operation, k, v, cache.v_head_dim);
  check_k(operation, q, k, table, cache);
  Writes written;
  const bool with_q = has_elements(q.layout), with_k = has_elements(k.layout);
  if (with_q) written.add(memory_of("q_out", q_out));
  if (with_k) {
    check_destination(operation, k, v, cache, slots, written);
    if (with_q) check_disjoint(operation, written.all().subspan(1), memory_of("q", q));
  }
  if (written.count == 0) return;
  check_disjoint(operation, written.all(), values("the table's cos", table.cos().data(), std::ssize(table.cos())));
  check_disjoint(operation, written.all(), values("the table's sin", table.sin().data(), std::ssize(table.sin())));
  check_places(operation, cache, slots, k.layout);
}

}  // namespace rotary::detail
