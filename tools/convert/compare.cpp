// Compares two checkpoints: are the rows of q and k in the same order, or in the order of the other pairing?
#include <algorithm>
#include <cmath>
#include <map>

#include "plan.h"
#include "tensors/formats.h"
#include "values/dtypes.h"
#include "values/names.h"

namespace rotary {

namespace {

using namespace conversion;

constexpr const char* order_names[] = {"same", "reordered", "reordered_back", "other", "missing"};

Plan plan_of(const std::filesystem::path& folder, std::optional<Pairing> from) {
  try {
    return make_plan(folder, Pairing::interleaved, from);
  } catch (const Error& error) {
    if (error.code() != Code::PAIRING) throw;
  }
  return make_plan(folder, Pairing::half, from);
}

struct StoredTensor {
  const Shard* shard = nullptr;
  std::size_t entry = 0;
  const TensorInfo& info() const { return shard->entries()[entry].info; }
};

std::map<std::string, StoredTensor> tensors_of(const std::vector<Shard>& shards) {
  std::map<std::string, StoredTensor> places;
  for (const Shard& shard : shards) {
    for (std::size_t i = 0; i < shard.entries().size(); ++i) places[shard.entries()[i].info.name] = {&shard, i};
  }
  return places;
}

// The storage of a float type; f64 counts as f32.
const detail::StorageType& storage_of(ElementType type) {
  return detail::storage_type(dtype_of(type).value_or(DType::f32));
}

bool are_equal(const TensorInfo& first, const Bytes& one, const TensorInfo& second, const Bytes& other) {
  if (first.shape != second.shape) return false;
  if (first.type == second.type) return one == other;
  if (!is_float(first.type) || !is_float(second.type)) return false;
  const std::vector<double> a = files::numbers_of({first, one}), b = files::numbers_of({second, other});
  const detail::StorageType &x_type = storage_of(first.type), &y_type = storage_of(second.type);
  // The largest error of a rounding to the coarser type: relative, and of a subnormal.
  const double unit = std::ldexp(1, -std::min(x_type.digits, y_type.digits)),
               least = std::ldexp(1, std::max(x_type.lowest, y_type.lowest) - 1);
  return std::ranges::equal(a, b, [&](double x, double y) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    return x == y || std::abs(x - y) <= std::max(unit * std::min(std::abs(x), std::abs(y)), least);
  });
}

std::string first_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > most ? " and " + std::to_string(names.size() - most) + " more" : "");
}

}  // namespace

const char* name(RowOrder order) noexcept { return order_names[static_cast<std::size_t>(order)]; }

ComparedCheckpoints compare_checkpoints(const std::filesystem::path& first, const std::filesystem::path& second,
                                        std::optional<Pairing> from) {
  const Plan plan = plan_of(first, from);
  std::vector<Shard> shards;
  std::error_code ignored;
  if (std::filesystem::is_directory(second, ignored)) {
    shards = open_folder(second).shards;
  } else {
    shards.push_back(open_shard(second));
  }
  ComparedCheckpoints result{.from = plan.from, .to = plan.to};
  std::map<std::string, StoredTensor> others = tensors_of(shards);
  std::map<std::string, const TensorPlan*> planned;
  for (const TensorPlan& one : plan.tensors) planned[one.shown.info.name] = &one;
  bool all_same = true, all_reordered = true;
  for (const auto& entry : tensors_of(plan.folder.shards)) {
    const StoredTensor& place = entry.second;
    ComparedTensor one{entry.first};
    const auto other = others.extract(entry.first);
    const auto change = planned.find(entry.first);
    const bool moves = change != planned.end();
    if (moves) one.what = change->second->shown.what;
    bool same = false, reordered = false;
    if (other.empty()) {
      one.order = RowOrder::missing;
    } else {
      const Bytes before = bytes_of(*place.shard, place.entry),
                  after = bytes_of(*other.mapped().shard, other.mapped().entry);
      const auto is_it = [&](const Bytes& bytes) {
        return are_equal(place.info(), bytes, other.mapped().info(), after);
      };
      same = is_it(before);
      reordered = moves ? is_it(changed(place.info(), change->second->change, before)) : same;
      one.order = same ? RowOrder::same : reordered ? RowOrder::reordered : RowOrder::other;
      if (moves && !same && !reordered && is_it(changed(place.info(), inverse(change->second->change), before)))
        one.order = RowOrder::reordered_back;
    }
    all_same = all_same && same;
    all_reordered = all_reordered && reordered;
    result.same_others += !moves && same ? 1 : 0;
    if (moves || !same) result.tensors.push_back(std::move(one));
  }
  for (const auto& [tensor, place] : others) result.tensors.push_back({tensor, "", RowOrder::missing});
  if (others.empty() && (all_same || all_reordered)) result.order = all_same ? RowOrder::same : RowOrder::reordered;
  return result;
}

std::string ComparedCheckpoints::sentence() const {
  const std::string other = detail::familiar(to), to_other = detail::familiar(from) + (" to " + other);
  if (order == RowOrder::same) return "all " + std::to_string(tensors.size() + same_others) + " tensors are the same";
  if (order == RowOrder::reordered) {
    return "the " + std::to_string(tensors.size()) + " tensors of q and k are reordered from " + to_other +
           "; the other " + std::to_string(same_others) + " are the same";
  }
  std::string text;
  const struct {
    RowOrder order;
    bool of_q_or_k;
    std::string words;
  } groups[] = {{RowOrder::reordered, true, "reordered from " + to_other},
                {RowOrder::reordered_back, true,
                 "reordered the other way, as if they were " + other + " in the first checkpoint"},
                {RowOrder::other, true, "neither the same nor reordered"},
                {RowOrder::same, true, "the same"},
                {RowOrder::other, false, "changed, which a conversion of q and k does not explain"},
                {RowOrder::missing, true, "in one of the two only"},
                {RowOrder::missing, false, "in one of the two only"}};
  for (const auto& [which, of_q_or_k, words] : groups) {
    std::vector<std::string> names;
    for (const ComparedTensor& one : tensors) {
      if (one.order == which && !one.what.empty() == of_q_or_k) names.push_back(one.name);
    }
    if (!names.empty())
      text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + " " + words + ": " + first_of(names);
  }
  return text;
}

std::string to_json(const ComparedCheckpoints& result) {
  files::OrderedJson json = {{"equal", result.equal()},
                             {"verdict", result.equal() ? "equal" : "differs"},
                             {"sentence", result.sentence()},
                             {"order", nullptr},
                             {"from", name(result.from)},
                             {"to", name(result.to)},
                             {"tensors", files::OrderedJson::array()},
                             {"same_others", result.same_others}};
  if (result.order) json["order"] = name(*result.order);
  for (const ComparedTensor& one : result.tensors)
    json["tensors"].push_back({{"name", one.name}, {"what", one.what}, {"order", name(one.order)}});
  return files::json_text(json);
}

}  // namespace rotary
