#include "tensors.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "apps/shared/columns.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "rotary/tensors.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

void check_options(const Source& source) {
  const bool numbers = source.base || source.head_dim || source.rotary_dim || source.first || source.length;
  if (numbers || source.rope || !source.pairing.empty() || !source.inv_freq.empty() || !source.weights.empty()) {
    throw UsageError("a file of tensors has no rope: only --json goes with it");
  }
}

}  // namespace

void inspect_tensors(const Source& source, bool json) {
  check_options(source);
  const std::vector<TensorInfo> tensors = tensor_infos(source.config);
  if (json) {
    Json list = Json::array();
    for (const TensorInfo& tensor : tensors) {
      list.push_back({{"name", tensor.name}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
    }
    Json all;
    all["tensors"] = std::move(list);
    std::cout << json_text(all) << '\n';
    return;
  }
  std::vector<Cells> rows = {{"name", "dtype", "shape"}};
  for (const TensorInfo& tensor : tensors) {
    rows.push_back({tensor.name.empty() ? "-" : printable(tensor.name), name(tensor.type), shape_text(tensor.shape)});
  }
  const Columns columns = Columns({{}, {.width = 7}, {}}).fit(rows);
  for (const Cells& row : rows) std::cout << columns.line(row) << '\n';
}

}  // namespace rotary::cli
