// The slot of each token of a call, as an offset into the cache.
#pragma once

#include <bit>
#include <cstdint>

#include "rotary/cache.h"

namespace rotary::detail {

class Places {
 public:
  // tokens: tokens per batch row.
  Places(const Slots& slots, const Cache& cache, std::int64_t tokens) noexcept
      : slots_(slots),
        tokens_(tokens),
        pages_(cache.pages),
        page_size_(cache.page_size),
        shift_((cache.page_size & (cache.page_size - 1)) == 0 ? std::countr_zero(static_cast<unsigned>(cache.page_size))
                                                              : -1),
        page_stride_(cache.pages > 1 ? cache.page_stride : 0),
        token_stride_(cache.page_size > 1 ? cache.token_stride : 0) {}

  // Elements between consecutive slots: within a page, and across pages where the cache is contiguous.
  std::int64_t step() const noexcept { return page_size_ > 1 ? token_stride_ : page_stride_; }

  // The offset, in elements, of the slot of token i = batch row * tokens + token; -1: the token is skipped.
  std::int64_t of(std::int64_t i) const noexcept {
    if (slots_.slot != nullptr) return of_slot(slots_.slot[i]);
    return slots_.by_row ? of_row(i) : of_sequence(slots_.batch_indices[i], slots_.positions[i]);
  }

 private:
  struct Quotient {
    std::int64_t page, token;
  };
  Quotient split(std::int64_t place) const noexcept {
    const std::int64_t page = shift_ >= 0 ? place >> shift_ : place / page_size_;
    return {page, place - page * page_size_};
  }
  std::int64_t of_slot(std::int64_t slot) const noexcept {
    if (slot < 0) return -1;
    const auto [page, token] = split(slot);
    return page < pages_ ? page * page_stride_ + token * token_stride_ : -1;
  }
  std::int64_t of_sequence(std::int32_t sequence, std::int32_t position) const noexcept {
    if (sequence < 0 || sequence >= slots_.sequences || position < 0) return -1;
    const auto [page, token] = split(position);
    const std::int64_t entry = slots_.indptr[sequence] + page;
    if (entry >= slots_.indptr[sequence + 1]) return -1;
    const std::int64_t index = slots_.indices[entry];
    return index >= 0 && index < pages_ ? index * page_stride_ + token * token_stride_ : -1;
  }
  std::int64_t of_row(std::int64_t i) const noexcept {
    const std::int64_t row = tokens_ == 1 ? i : i / tokens_;
    const std::int64_t first = slots_.firsts != nullptr ? slots_.firsts[row] : slots_.first;
    return first < 0 ? -1 : row * page_stride_ + (first + i - row * tokens_) * token_stride_;
  }

  const Slots& slots_;
  std::int64_t tokens_, pages_, page_size_;
  int shift_;  // of a page_size that is a power of two, else -1
  std::int64_t page_stride_, token_stride_;
};

}  // namespace rotary::detail
