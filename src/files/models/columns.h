// The fields of the rows of data/models.json: their names, and the words of those that are one of a few. For table.cpp.
#pragma once

#include <string_view>
#include <tuple>

#include "diffusers.h"
#include "families.h"

namespace rotary::files {

// The words of an enum, in the order of its values.
template <class E>
constexpr std::string_view words_of = "";
template <>
constexpr std::string_view words_of<Pairing> = "unset half interleaved interleaved_to_half";
template <>
constexpr std::string_view words_of<Axes> = "one sectioned interleaved ernie xdrope alternating bailing openpangu glm";
template <>
constexpr std::string_view words_of<Rule> =
    "all sliding sliding_or_dense sliding_or_all no_rope_layers layer_rope_theta layer_rope_flags unless_null "
    "if_rotary unless_not_rotary unless_alibi_size if_attn_config_rope use_rope_layers not_cross";
template <>
constexpr std::string_view words_of<Old> = "one_for_all all_to_all scaling_to_full scaling_to_both scaling_to_compress";
template <>
constexpr std::string_view words_of<Fused> = "none joined gate_first by_head by_group four_parts";
template <>
constexpr std::string_view words_of<FusedKeys> = "none joined by_head";

template <>
constexpr std::string_view words_of<LayerKind> = "none sliding full linear hybrid indexed mlp";
template <>
constexpr std::string_view words_of<PatchOrder> = "none rows blocks film_blocks centres windows";
template <>
constexpr std::string_view words_of<ClassToken> = "none before after";

template <>
constexpr std::string_view words_of<GgufRopeType> = "none norm neox mrope imrope norm_mrope neox_mrope";
template <>
constexpr std::string_view words_of<GgufQuirk> =
    "plain permuted permuted_switch permuted_gaps gaps gaps_first mla window_only window_plain window_after hybrid";

template <>
constexpr std::string_view words_of<Split> = "none equal sixths thirds eighths half";
template <>
constexpr std::string_view words_of<Laid> = "in_turn by_turns interleaved blocks across_heads learned joined";
template <>
constexpr std::string_view words_of<Fill> = "whole whole_or_half any";

// A field of a row: its name, and the member of S that it fills.
template <class S, class Value>
struct Column {
  std::string_view name;
  Value S::*member;
  constexpr Column(const char* n, Value S::*m) : name(n), member(m) {}
};

template <class S>
constexpr auto columns_of = std::tuple();
template <>
constexpr auto columns_of<Shape> = std::tuple(Column("layers", &Shape::layers), Column("heads", &Shape::heads),
                                              Column("kv_heads", &Shape::kv_heads), Column("hidden", &Shape::hidden),
                                              Column("head_dim", &Shape::head_dim));
template <>
constexpr auto columns_of<Mla> = std::tuple(Column("nope", &Mla::nope), Column("rope", &Mla::rope));
template <>
constexpr auto columns_of<Pattern> = std::tuple(Column("types", &Pattern::types),
                                                Column("period_key", &Pattern::period_key),
                                                Column("first", &Pattern::first),
                                                Column("ends_full", &Pattern::ends_full),
                                                Column("last_full", &Pattern::last_full));
template <>
constexpr auto columns_of<Flag> = std::tuple(Column("key", &Flag::key), Column("on", &Flag::on),
                                             Column("default_value", &Flag::default_value));
template <>
constexpr auto columns_of<Remark> = std::tuple(Column("text", &Remark::text), Column("keys", &Remark::keys));
template <>
constexpr auto columns_of<FusedWhere> = std::tuple(Column("key", &FusedWhere::key),
                                                   Column("default_value", &FusedWhere::default_value),
                                                   Column("fused", &FusedWhere::fused));
template <>
constexpr auto columns_of<Indexer> = std::tuple(Column("heads", &Indexer::heads),
                                                Column("head_dim", &Indexer::head_dim),
                                                Column("pairing", &Indexer::pairing));
template <>
constexpr auto columns_of<AttentionFacts> = std::tuple(
    Column("why_not", &AttentionFacts::why_not), Column("fused", &AttentionFacts::fused),
    Column("fused_where", &AttentionFacts::fused_where), Column("fused_keys", &AttentionFacts::fused_keys),
    Column("gated_q", &AttentionFacts::gated_q), Column("gated_by_value", &AttentionFacts::gated_by_value),
    Column("query_experts", &AttentionFacts::query_experts),
    Column("keys_may_be_values", &AttentionFacts::keys_may_be_values),
    Column("pairing_key", &AttentionFacts::pairing_key), Column("first_layer", &AttentionFacts::first_layer),
    Column("layers_in_stack", &AttentionFacts::layers_in_stack), Column("indexer", &AttentionFacts::indexer));
template <>
constexpr auto columns_of<Unusable> = std::tuple(Column("methods", &Unusable::methods), Column("why", &Unusable::why));
template <>
constexpr auto columns_of<Family> = std::tuple(
    Column("pairing", &Family::pairing), Column("shape", &Family::shape), Column("context", &Family::context),
    Column("prefix", &Family::prefix), Column("base", &Family::base), Column("partial", &Family::partial),
    Column("reads_partial", &Family::reads_partial), Column("reads_scaling", &Family::reads_scaling),
    Column("axes", &Family::axes), Column("sections", &Family::sections), Column("tower", &Family::tower),
    Column("mla", &Family::mla), Column("rope_parameters", &Family::rope_parameters),
    Column("pattern", &Family::pattern), Column("rule", &Family::rule), Column("turns_where", &Family::turns_where),
    Column("old", &Family::old), Column("sliding_base", &Family::sliding_base), Column("base_key", &Family::base_key),
    Column("sliding_base_key", &Family::sliding_base_key), Column("partial_key", &Family::partial_key),
    Column("dim_key", &Family::dim_key), Column("dim", &Family::dim), Column("pairing_key", &Family::pairing_key),
    Column("harmless", &Family::harmless), Column("remark", &Family::remark), Column("quirk", &Family::quirk),
    Column("attention", &Family::attention), Column("unusable", &Family::unusable),
    Column("null_head_dim", &Family::null_head_dim));
template <>
constexpr auto columns_of<Child> = std::tuple(Column("type", &Child::type), Column("shape", &Child::shape),
                                              Column("base", &Child::base), Column("merged", &Child::merged),
                                              Column("always", &Child::always));
template <>
constexpr auto columns_of<Counted> = std::tuple(Column("seen", &Counted::seen), Column("from_one", &Counted::from_one),
                                                Column("every", &Counted::every));
template <>
constexpr auto columns_of<PositionFacts> = std::tuple(
    Column("variant", &PositionFacts::variant), Column("image", &PositionFacts::image),
    Column("video", &PositionFacts::video), Column("audio", &PositionFacts::audio),
    Column("start", &PositionFacts::start), Column("end", &PositionFacts::end), Column("order", &PositionFacts::order),
    Column("first", &PositionFacts::first), Column("class_token", &PositionFacts::class_token),
    Column("frame_axis", &PositionFacts::frame_axis), Column("grid_of_blocks", &PositionFacts::grid_of_blocks),
    Column("fixed_grid", &PositionFacts::fixed_grid), Column("width_first", &PositionFacts::width_first),
    Column("clip", &PositionFacts::clip), Column("inside", &PositionFacts::inside),
    Column("merge_key", &PositionFacts::merge_key), Column("side_key", &PositionFacts::side_key),
    Column("patch_key", &PositionFacts::patch_key), Column("merge", &PositionFacts::merge),
    Column("side", &PositionFacts::side), Column("patch", &PositionFacts::patch),
    Column("frames", &PositionFacts::frames), Column("window", &PositionFacts::window));
template <>
constexpr auto columns_of<Misnamed> = std::tuple(Column("type", &Misnamed::type),
                                                 Column("architecture", &Misnamed::architecture),
                                                 Column("family", &Misnamed::family));
template <>
constexpr auto columns_of<GgufArchitecture> = std::tuple(Column("rope_type", &GgufArchitecture::rope_type),
                                                         Column("quirk", &GgufArchitecture::quirk),
                                                         Column("period", &GgufArchitecture::period),
                                                         Column("window_10000", &GgufArchitecture::window_10000));
template <>
constexpr auto columns_of<DiffusersRope> = std::tuple(
    Column("defaults", &DiffusersRope::defaults), Column("pairing", &DiffusersRope::pairing),
    Column("pairing_key", &DiffusersRope::pairing_key), Column("axes", &DiffusersRope::axes),
    Column("layers", &DiffusersRope::layers), Column("heads", &DiffusersRope::heads),
    Column("kv_heads", &DiffusersRope::kv_heads), Column("head_dim", &DiffusersRope::head_dim),
    Column("hidden", &DiffusersRope::hidden), Column("widths", &DiffusersRope::widths),
    Column("width_unit", &DiffusersRope::width_unit), Column("split", &DiffusersRope::split),
    Column("laid", &DiffusersRope::laid), Column("fill", &DiffusersRope::fill), Column("base", &DiffusersRope::base),
    Column("base_key", &DiffusersRope::base_key), Column("stretch", &DiffusersRope::stretch),
    Column("pace", &DiffusersRope::pace), Column("ntk", &DiffusersRope::ntk),
    Column("longrope", &DiffusersRope::longrope), Column("turns_where", &DiffusersRope::turns_where),
    Column("harmless", &DiffusersRope::harmless), Column("remark", &DiffusersRope::remark));

}  // namespace rotary::files
