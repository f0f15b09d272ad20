#include "published.h"

#include <algorithm>

#include "files/models/families.h"

namespace rotary::extend {
namespace {

bool is_of(const Published& row, const ModelRope& used, std::string_view type, std::string_view name) {
  const std::vector<std::string_view> types = files::words(row.types);
  const int width = used.heads * used.rope.head_dim;
  return std::find(types.begin(), types.end(), type) != types.end() && (row.base == 0 || row.base == used.rope.base) &&
         width >= row.min_width && (row.max_width == 0 || width <= row.max_width) &&
         (row.kv_heads == 0 || row.kv_heads == used.kv_heads) && name.find(row.name) != std::string_view::npos &&
         (row.part == nullptr || used.part == row.part);
}

}  // namespace

bool is_just_below(std::int64_t context, std::int64_t length) {
  return context <= length && context >= length - length / 16;
}

bool is_made_for(const Published& recipe, std::int64_t context) {
  return is_just_below(context, recipe.context) || (recipe.also != 0 && is_just_below(context, recipe.also));
}

const Published* published_for(const ModelRope& used, std::string_view type, std::string_view name,
                               std::int64_t context) {
  const Published* other = nullptr;
  for (const Published& row : published_recipes()) {
    if (!is_of(row, used, type, name)) continue;
    if (is_made_for(row, context)) return &row;
    if (other == nullptr) other = &row;
  }
  return other;
}

}  // namespace rotary::extend
