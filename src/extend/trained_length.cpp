#include "steps.h"

#include <algorithm>

#include "values/fail.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using detail::spelled;
using files::Json;

[[noreturn]] void refuse(Code code, const std::string& sentence) { fail(code, "extend", sentence); }

struct Length {
  std::int64_t tokens = 0;
  std::string from;
};

Length published_length(const Situation& situation) {
  return {situation.published->trained_length, "published by " + std::string(situation.published->publisher)};
}

// A GGUF file has the scaling of Llama 3.1 as factors, the same for texts of every length, and not the length before
// it.
bool is_factors_of_gguf(const Situation& situation) {
  const auto* lists = std::get_if<LongRope>(&situation.first().rope.scaling);
  return lists != nullptr && !situation.editable() && lists->short_factor == lists->long_factor;
}

std::optional<Length> length_in_scaling(Situation& situation) {
  const ModelRope& used = situation.first();
  const Scaling& scaling = used.rope.scaling;
  if (is_factors_of_gguf(situation)) {
    if (situation.published != nullptr) return published_length(situation);
    refuse(Code::CONFIG_MISSING,
           "the trained length must be known but the file's factors by pair do not say it: --trained-length gives it");
  }
  if (const auto* length = scalings::value_of<std::int64_t>(scaling, "trained_length")) {
    return Length{*length, std::holds_alternative<Dynamic>(scaling) ? "max_position_embeddings"
                                                                    : "original_max_position_embeddings"};
  }
  const auto* linear = std::get_if<Linear>(&scaling);
  if (is_published_linear(situation)) return published_length(situation);
  const std::int64_t by_default = situation.family == nullptr ? 0 : situation.family->context;
  const std::int64_t context = used.context > 0 ? used.context : by_default;
  if (linear != nullptr && context > 0 && linear->factor > 1) {
    situation.warnings.push_back("the file's linear scaling, factor " + spelled(linear->factor) +
                                 ", does not say whether max_position_embeddings " + std::to_string(context) +
                                 " is the length before or after it: it is taken as the one after; "
                                 "--trained-length says otherwise");
    return Length{static_cast<std::int64_t>(static_cast<double>(context) / linear->factor + 0.5),
                  "max_position_embeddings / factor"};
  }
  if (std::holds_alternative<Ntk>(scaling) || std::holds_alternative<NtkFixed>(scaling)) {
    refuse(Code::CONFIG_MISSING, std::string("the trained length must be known but the file's scaling ") +
                                     name(scaling) + " does not say it: --trained-length gives it");
  }
  return std::nullopt;
}

std::string raised(std::int64_t stated, const Length& length, const std::string& who) {
  return "max_position_embeddings " + std::to_string(stated) + " is above the trained length " +
         std::to_string(length.tokens) + " that " + who + ": the plan starts from " + std::to_string(length.tokens);
}

Length length_of_unscaled(Situation& situation) {
  const ModelRope& used = situation.first();
  if (const Published* known = situation.published) {
    if (known->states_more(used.context)) {
      const Length length = published_length(situation);
      situation.warnings.push_back(raised(used.context, length, std::string(known->publisher) + " publishes"));
      return length;
    }
  }
  const Json* original = situation.value("original_max_position_embeddings");
  if (original != nullptr && original->is_number_integer() && original->get<std::int64_t>() > 0) {
    const Length length{original->get<std::int64_t>(), "original_max_position_embeddings"};
    if (used.context > length.tokens) {
      situation.warnings.push_back(raised(used.context, length, "original_max_position_embeddings says"));
    }
    return length;
  }
  if (used.context > 0) return {used.context, "max_position_embeddings"};
  if (situation.family != nullptr && situation.family->context > 0) {
    const std::string type(situation.family->type);
    situation.warnings.push_back("max_position_embeddings is not given: the trained length is taken as " +
                                 std::to_string(situation.family->context) + ", the default of " + type);
    return {situation.family->context, "the default of " + type};
  }
  if (situation.published != nullptr) return published_length(situation);
  refuse(Code::CONFIG_MISSING,
         "the trained length must be known but the config has no max_position_embeddings: --trained-length gives it");
}

}  // namespace

bool is_published_linear(const Situation& situation) {
  const Scaling& own = situation.first().rope.scaling;
  return std::holds_alternative<Linear>(own) && situation.published != nullptr && situation.published->scaling == own;
}

void set_trained_length(Situation& situation) {
  const ModelRope& used = situation.first();
  if (const auto given = situation.request.trained_length) {
    if (*given < 2 || *given > longest_text) {
      refuse(Code::VALUE, "--trained-length must be from 2 to 2^53 but got " + std::to_string(*given));
    }
    situation.trained = *given;
    situation.trained_from = "--trained-length";
    if (!situation.is_scaled() && used.context > *given) {
      situation.warnings.push_back(raised(used.context, {*given, ""}, "--trained-length gives"));
    }
    return;
  }
  const auto scaled = length_in_scaling(situation);
  const Length length = scaled ? *scaled : length_of_unscaled(situation);
  if (length.tokens < 2) {
    refuse(Code::VALUE, "the trained length must be at least 2 but got " + std::to_string(length.tokens) + " (" +
                            length.from + "): --trained-length gives another");
  }
  situation.trained = length.tokens;
  situation.trained_from = length.from;
}

}  // namespace rotary::extend
