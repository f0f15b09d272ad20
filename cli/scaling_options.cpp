// --scaling, --factor, --trained-length, and --base beside CONFIG, which show another scaling without a new file.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <variant>
#include <vector>

#include "shared/command.h"
#include "shared/text.h"
#include "source.h"
#include "values/scaling_fields.h"

namespace rotary::cli {

namespace {

template <class Value>
bool has(const Scaling& scaling, std::string_view field) {
  return scalings::value_of<Value>(scaling, field) != nullptr;
}

void note(Model& model, NoteKind kind, const std::string& text) { model.notes.push_back({"", kind, text}); }

void set_base(Model& model, ModelRope& used, double base) {
  if (!(base > 1 && std::isfinite(base)))
    fail(Code::SCALING, "rope", "--base must be finite and above 1 but got ", significant(base, 10));
  note(model, NoteKind::chosen,
       "--base " + significant(base, 10) + " replaces the base of the file, " + significant(used.rope.base, 10) + ".");
  used.rope.base = base;
  set_origin(used.origins, {"base", {OriginKind::chosen, "--base"}});
}

// ---- the scaling ----

ValueOrigin context_origin(const ModelRope& used) {
  for (const ValueOrigin& known : used.origins) {
    if (known.value == "context") return {"scaling.trained_length", {OriginKind::derived, known.origin.key}};
  }
  return {"scaling.trained_length", {OriginKind::derived, "context"}};
}

std::vector<ValueOrigin> origins_of(const Scaling& scaling, const ValueOrigin& trained) {
  std::vector<ValueOrigin> origins = {{"scaling", {OriginKind::chosen, "--scaling"}}};
  if (has<double>(scaling, "factor")) origins.push_back({"scaling.factor", {OriginKind::chosen, "--factor"}});
  if (has<std::int64_t>(scaling, "trained_length")) origins.push_back(trained);
  const std::string name = rotary::name(scaling);
  for (const char* value : {"beta_fast", "beta_slow", "low", "high"}) {
    if (has<double>(scaling, value))
      origins.push_back({std::string("scaling.") + value, {OriginKind::method_default, name}});
  }
  if (has<bool>(scaling, "truncate")) origins.push_back({"scaling.truncate", {OriginKind::method_default, name}});
  const bool own = std::holds_alternative<Yarn>(scaling);
  origins.push_back({"attention_factor", {OriginKind::derived, own ? "0.1 * ln(factor) + 1" : "1 for " + name}});
  return origins;
}

// The length that --scaling starts from, and its origin.
struct Trained {
  std::int64_t tokens = 0;
  ValueOrigin origin = {};
};

// --trained-length, else the length that extend starts from. Adds a note if it is not the config's context.
Trained trained_of(const Source& source, const extend::Start& start, const ModelRope& used, Model& model) {
  const char* value = "scaling.trained_length";
  if (source.trained_length) return {*source.trained_length, {value, {OriginKind::chosen, "--trained-length"}}};
  const std::int64_t tokens = start.trained_length;
  const std::int64_t stated = part_of(model, used.part).context;
  if (tokens == 0 || tokens == stated) return {stated, context_origin(used)};
  const bool published = !start.publisher.empty();
  note(model, published ? NoteKind::published : NoteKind::derived,
       "trained length " + std::to_string(tokens) +
           (published ? ", as " + start.publisher + " publishes it" : ", from " + start.trained_length_from) +
           (stated > 0 ? " (max_position_embeddings says " + std::to_string(stated) + ")" : "") + ".");
  return {tokens, {value, {published ? OriginKind::published : OriginKind::derived, start.trained_length_from}}};
}

Scaling scaling_of(const Source& source, std::int64_t trained) {
  Scaling scaling = *source.scaling;
  if (has<std::int64_t>(scaling, "trained_length") && trained == 0) {
    throw UsageError("--scaling " + scaling_text(scaling) +
                     " needs --trained-length: nothing else gives the tokens of the training");
  }
  const auto set = [&](const auto& field, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, double>) {
      if (std::string_view(field.name) == "factor") value = *source.factor;
    } else if constexpr (std::is_same_v<Value, std::int64_t>) {
      value = trained;
    }
  };
  std::visit([&](auto& held) { scalings::for_each_field(held, set); }, scaling);
  return scaling;
}

void set_scaling(Model& model, ModelRope& used, const Source& source, const extend::Start& start) {
  const bool scales = source.factor.has_value();
  const Trained trained = scales ? trained_of(source, start, used, model) : Trained{};
  const Scaling scaling = scaling_of(source, trained.tokens);
  if (!std::holds_alternative<Unscaled>(used.rope.scaling)) {
    note(model, NoteKind::chosen,
         "--scaling " + scaling_text(scaling) + " replaces " + name(used.rope.scaling) + ", the scaling of the file.");
  }
  std::vector<ValueOrigin> origins = origins_of(scaling, trained.origin);
  std::erase_if(used.origins, [](const ValueOrigin& known) {
    return known.value == "scaling" || known.value.starts_with("scaling.") || known.value == "attention_factor";
  });
  used.origins.insert(used.origins.end(), origins.begin(), origins.end());
  used.rope.scaling = scaling;
  const auto part = std::ranges::find_if(model.parts, [&](const ModelPart& one) { return one.path == used.part; });
  if (scales && trained.tokens != part->context && !has<std::int64_t>(scaling, "trained_length")) {
    part->context = trained.tokens;
    set_origin(used.origins, {"context", trained.origin.origin});
  }
}

}  // namespace

void set_origin(std::vector<ValueOrigin>& origins, const ValueOrigin& now) {
  std::erase_if(origins, [&](const ValueOrigin& known) { return known.value == now.value; });
  origins.push_back(now);
}

ModelRope& rope_for_option(Model& model, const Source& source, const char* option, std::ptrdiff_t among) {
  if (among > 1 && !source.names_rope()) {
    fail(Code::ROPE, "rope", option, " must come with --rope N or --layer N, because the model has ",
         model.ropes.size(), " ropes, but got neither");
  }
  return model.ropes[static_cast<std::size_t>(&chosen_rope(model, source) - model.ropes.data())];
}

extend::Start start_of(const Source& source, const Model& model) {
  if (model.ropes.empty() || source.config.empty()) return {};
  extend::Request request;
  request.model = model;
  request.config = config_text_at(source.config);
  if (source.names_rope()) request.rope = static_cast<int>(&chosen_rope(model, source) - model.ropes.data());
  return extend::start_of(request);
}

void apply_scaling_options(Model& model, const Source& source) {
  const bool new_base = source.base && !source.config.empty();
  if (!new_base && !source.scaling && !source.attention_factor) return;
  const char* option = source.scaling ? "--scaling" : source.base ? "--base" : "--attention-factor";
  const std::string& part = chosen_rope(model, source).part;
  ModelRope& used = rope_for_option(model, source, option, std::ranges::count(model.ropes, part, &ModelRope::part));
  if ((new_base || source.scaling) && !used.rope.inv_freq.empty())
    fail(Code::ROPE, "rope", option, " must be for a rope with a base but this one's frequencies are given");
  const extend::Start start = source.scaling ? start_of(source, model) : extend::Start{};
  if (new_base) set_base(model, used, *source.base);
  if (source.scaling) set_scaling(model, used, source, start);
  if (!source.attention_factor) return;
  used.rope.attention_factor = source.attention_factor;
  set_origin(used.origins, {"attention_factor", {OriginKind::chosen, "--attention-factor"}});
}

}  // namespace rotary::cli
