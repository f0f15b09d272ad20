#include "reach.h"

#include <algorithm>
#include <variant>

#include "shared/text.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

bool is_from_option(const ModelRope& used) {
  return std::any_of(used.origins.begin(), used.origins.end(), [](const ValueOrigin& known) {
    return known.value == "scaling" && known.origin.kind == OriginKind::chosen;
  });
}

std::int64_t product(std::int64_t length, double factor) {
  constexpr double most = 1e15;
  return static_cast<std::int64_t>(std::min(static_cast<double>(length) * factor + 0.5, most));
}

std::int64_t trained_or_context(const ModelRope& used, std::int64_t context) {
  const std::int64_t trained = trained_length(used.rope.scaling);
  return trained > 0 || !is_from_option(used) ? trained : context;
}

// Llama 3.1 was trained on past trained_length * factor, and Llama 3.2's factor reaches past its context.
bool goes_on(const ModelRope& used, std::int64_t context) {
  return std::holds_alternative<Llama3>(used.rope.scaling) && !is_from_option(used) &&
         context > trained_or_context(used, context);
}

}  // namespace

std::int64_t trained_length(const Scaling& scaling) {
  const auto* length = scalings::value_of<std::int64_t>(scaling, "trained_length");
  return length == nullptr ? 0 : *length;
}

bool has_one_list(const Scaling& scaling) {
  const auto* rope = std::get_if<LongRope>(&scaling);
  return rope != nullptr && rope->short_factor == rope->long_factor;
}

std::int64_t reach_of(const ModelRope& used, std::int64_t context) {
  const Scaling& scaling = used.rope.scaling;
  const std::int64_t trained = trained_or_context(used, context);
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  if (trained == 0 || factor == nullptr || *factor <= 1 || std::holds_alternative<Dynamic>(scaling)) return 0;
  return goes_on(used, context) ? context : product(trained, *factor);
}

std::string reach_text(const ModelRope& used, std::int64_t context) {
  const Scaling& scaling = used.rope.scaling;
  const std::int64_t trained = trained_or_context(used, context);
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  if (trained == 0 || factor == nullptr) return "";
  const std::string start = "trained " + std::to_string(trained);
  if (std::holds_alternative<Dynamic>(scaling)) return start + ", the base grows with longer texts";
  const std::int64_t reach = reach_of(used, context);
  if (reach == 0) return "";
  return start + (goes_on(used, context) ? ", the config allows " : " x " + significant(*factor, 6) + " = ") +
         std::to_string(reach);
}

Lengths lengths_of(const Rope& rope, const Frequencies& used, std::int64_t length) {
  const std::int64_t trained = trained_length(rope.scaling);
  if (!depends_on_length(rope.scaling) || trained == 0) return {};
  const auto same = [](const Frequencies& a, const Frequencies& b) {
    return a.inv_freq == b.inv_freq && a.attention_factor == b.attention_factor;
  };
  const Frequencies within = frequencies(rope, trained);
  if (has_one_list(rope.scaling) && same(within, frequencies(rope, trained + 1))) return {};
  const bool is_within = same(within, used);
  const bool lists = std::holds_alternative<LongRope>(rope.scaling);
  if (is_within) return {lists ? "short list" : "as trained", 1, trained};
  if (!lists) return {"stretched", length, length};
  return {"long list", trained + 1, 0};
}

std::string which_lengths(const Lengths& lengths) {
  if (*lengths.word == '\0') return "";
  if (lengths.least == lengths.most) return std::string(lengths.word) + ", length " + std::to_string(lengths.most);
  return std::string(lengths.word) + ", lengths " +
         (lengths.most > 0 ? "to " + std::to_string(lengths.most) : "above " + std::to_string(lengths.least - 1));
}

}  // namespace rotary::cli
