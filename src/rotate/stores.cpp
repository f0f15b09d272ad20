#include "runtime/arithmetic.h"

#include "stores.h"

#include <string>

#include "cpu/tuning.h"
#include "values/fail.h"

namespace rotary::detail {

void check_stores(const char* operation, Stores stores) {
  if (stores <= Stores::streaming) return;
  fail(Code::VALUE, operation,
       "stores must be automatic, cached or streaming but got value " + std::to_string(static_cast<int>(stores)));
}

bool streams(std::int64_t bytes_read, const RotateOptions& options) {
  if (options.stores != Stores::automatic) return options.stores == Stores::streaming;
  return tuning().streams(bytes_read / options.executor->concurrency());
}

}  // namespace rotary::detail
