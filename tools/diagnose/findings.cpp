// A row for each cause: its verdict and its sentence; and the sentences and the JSON of findings.
#include "findings.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "subject/subject.h"
#include "values/names.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

using Json = nlohmann::ordered_json;

// How a sentence is joined to the sentences before it.
enum class Join : std::uint8_t {
  clause,   // "q is ..."; "; and it is ..."
  colon,    // "q: before was taken ..."
  unknown,  // "q: cannot tell, because ..."
  tail,     // "; all else is ...": a remark on the others
  suffix,   // ", with noise ...": the same with a sign of its own
};

// The places that a sentence names itself: others stand in front of it, "in head 3 is ...".
enum : std::uint8_t { names_none = 0, names_heads = 1, names_elements = 2, names_all = 4 };

// In a sentence [is|are] are the words for one tensor and for several, {key} is a number of the finding, a place of it
// or one of the fragments below, and <...> stands only where all its own keys have a value.
struct Row {
  Cause cause;
  const char* name;
  Verdict verdict;
  const char* sentence;
  Join join = Join::clause;
  const char* next = "and";  // before the next finding: "; and it is ..."
  std::uint8_t names = names_none;
};

// clang-format off
#define ROW(cause, verdict, ...) {Cause::cause, #cause, Verdict::verdict, __VA_ARGS__}
constexpr Row cause_rows[] = {
    ROW(as_configured, as_configured, "{rotated} as the config asks<, within the rounding of [its|their] before, which "
        "is {before}>{rotation}"),
    ROW(as_asked, as_configured, "[is|are] as the config asks"),
    ROW(zeros, cannot_tell, "every element is 0: zeros show no rotation", Join::unknown),
    ROW(position_0, cannot_tell, "at position 0 no rope moves anything: before and after are the same", Join::unknown),
    ROW(not_finite, cannot_tell, "every element must be finite {not_finite}", Join::unknown),
    ROW(norms, cannot_tell, "no pairing of [its|their] elements keeps the norms of the pairs, as a rotation does "
        "(fits to {residual} at best)", Join::unknown),
    ROW(heads_differ, cannot_tell, "[its|their] angles differ from head to head in every layout", Join::unknown),
    ROW(one_pair, cannot_tell, "only one pair of the head is not 0, which shows position times speed and neither "
        "alone<; [it is|they are] not what the config asks{differs}>", Join::unknown),
    ROW(no_speeds, cannot_tell, "[its|their] angles do not fit one speed per pair and one position per token, "
        "neither with the speeds nor with the positions that the config asks", Join::unknown),
    ROW(no_frequencies, cannot_tell, "[its|their] angles do not fit the rope's frequencies at any positions, in any "
        "order of axes or heads (another base or scaling cannot be found where frequencies are given for each head or "
        "axis)", Join::unknown),
    ROW(no_positions, cannot_tell, "cannot tell whether [its|their] positions are right, because a rope of coordinates "
        "was given none; at those that [it has it is|they have they are] rotated as the config asks", Join::colon),
    ROW(no_config, cannot_tell, "no config says what is asked, so nothing was compared; [it is|they are] "
        "rotated< in the {pairing} pairing><, elements {first} to {last}><, base {base}><, {scaling}>, "
        "layout {layout}<; with the positions of the tokens direction, base and scaling are found too{open}>",
        Join::colon),
    ROW(not_rotated, not_rotated, "[is|are] not rotated: before and after are the same<, bit for bit{exact}><; rotated "
        "at position 0 [it|they] would look the same, but position {asked} is asked>"),
    ROW(no_angles, not_rotated, "[is|are] not rotated: every angle is 0, whatever else was done (position 0 for every "
        "token would look the same){on_axis}{evidence}"),
    ROW(some_heads, some_heads, "{rotated} in {some} of [its|their] {all} heads only ({heads}); the others are the "
        "same before and after", Join::clause, "and", names_heads),
    ROW(pairing, pairing, "{rotated} in the {found} pairing; the model uses {asked}{evidence}<; this is right only "
        "if the weights were converted to that pairing (rotary convert){rows}>"),
    ROW(order, pairing, "{rotated} in the {found} pairing; the model uses {asked}{evidence}; the elements have another "
        "order: {scores}"),
    ROW(block, block, "{rotated} in <all {found_all} elements><elements {found_first} to {found_last}> of each head; "
        "the model rotates <all {asked_all} elements><elements {asked_first} to {asked_last}>< (the pairs that move "
        "are spread: {moving} elements)>"),
    ROW(head_index, layout, "{rotated} with the head index as position: by [its|their] {heads} heads [its|their] "
        "layout is {asked} with {tokens} tokens, but [it is|they are] rotated as {found}"),
    ROW(reshaped, layout, "{rotated} as if [its|their] memory were in the other order of tokens and heads: a reshape "
        "where a transpose belongs"),
    ROW(rows_of_heads, heads, "{rotated} with the frequencies of other heads: head {head} by row {found}; the model "
        "asks row {asked}{evidence}"),
    ROW(one_row_of_heads, heads, "{rotated} with the frequencies of row {found} in all heads; the model asks row "
        "{asked} in head {head}{evidence}"),
    ROW(offsets, offset, "{rotated} at an offset of [its|their] own in each {unit}: {offsets}, ... positions too far"),
    ROW(zero_after, elements, "[is|are] zero after the rotation, in every element"),
    ROW(zero_before, elements, "[is|are] zero before the rotation, in every element, and not after it"),
    ROW(still_without_factor, attention_factor, "[is|are] without the attention factor: before and after are the same; "
        "the model asks {asked}"),
    ROW(without_factor, attention_factor, "{rotated} without the attention factor; the model asks {asked}"),
    ROW(factor_twice, attention_factor, "{multiplied} by the attention factor twice, {found}; the model asks {asked}"),
    ROW(factor, attention_factor, "{multiplied} by {found}; the model asks {asked}< ([it is|they are] "
        "divided by the root of head_dim too{root})>"),
    ROW(query_factor_left_out, attention_factor, "[is|are] not multiplied by the factor of queries at [its|their] "
        "positions, {factor}, which the model asks"),
    ROW(query_factor_twice, attention_factor, "{multiplied} by the factor of queries at [its|their] positions twice, "
        "{found}; the model asks {factor}"),
    ROW(coarse_table, precision, "{rotated} with coarse angles: cos and sin are rounded to {type}{evidence}"),
    ROW(coarse_inv_freq, precision, "{rotated} with coarse angles: inv_freq is rounded to {type}{evidence}"),
    ROW(coarse_angles, precision, "{rotated} with coarse angles: the angles are rounded to {type}{evidence}"),
    ROW(coarse_steps, precision, "{rotated} with coarse angles: the angles are computed in {type}{evidence}"),
    ROW(tf32, precision, "{rotated} with coarse angles: the angles are computed in TF32, which has the digits of "
        "f16{evidence}"),
    ROW(off, noise, "{rotated} as the config asks, but elements are off by up to {error} where {allowed} is allowed"),
    ROW(only_noise, noise, "{rotated} as the config asks, with noise of {noise} rms{rotation}"),
    ROW(noise, noise, ", with noise of {noise} rms", Join::suffix),
    ROW(coarse_before, noise, ", within the rounding of [its|their] before, which is {before}", Join::suffix),
    ROW(one_axis, axis, "{rotated} with {axis} alone instead of all axes{listens}"),
    ROW(axes_exchanged, axis, "{rotated} with {one} and {other} exchanged among [its|their] axes{listens}"),
    ROW(axes_left_out, axis, "{rotated} without {left_out}<, whose pairs do not rotate{still}>{listens}"),
    ROW(axes_in_runs, axis, "{rotated} with the axes in runs{listens}"),
    ROW(axes_in_turns, axis, "{rotated} with the axes in turns{listens}"),
    ROW(axes_reversed, axis, "{rotated} with the axes in reverse order{listens}"),
    ROW(axes_further, axis, "{rotated} with the axes shifted one pair further{listens}"),
    ROW(axes_back, axis, "{rotated} with the axes shifted one pair back{listens}"),
    ROW(other_axes, axis, "{rotated} with other axes in {moved} of [its|their] {pairs} pairs{listens}"),
    ROW(direction, direction, "{rotated} {found}; the model rotates {asked}{on_axis}{evidence}"),
    ROW(mirrored, direction, "[is|are] not rotated but mirrored: the minus sign is missing in the first element of "
        "each pair, in the {pairing} pairing"),
    ROW(sin_cos_exchanged, direction, "{rotated} with sin and cos exchanged, in the {pairing} pairing"),
    ROW(map, direction, "[is|are] not rotated: each pair is multiplied by the matrix {map} of its cos and sin, in "
        "the {pairing} pairing; a rotation has {rotation}"),
    ROW(map_of_pairs, direction, "[is|are] not rotated in pairs {pairs}: pair {pair} at token {token} is multiplied by "
        "the matrix {found}, in the {pairing} pairing; the rotation has {asked}<; in every pair {entry} is taken from "
        "the pair {further} places later>"),
    ROW(offset, offset, "{at} begin at {found} instead of {asked}, <{late} too far><{early} too "
        "early>{on_axis}{evidence}"),
    ROW(moved_back, positions, "[is|are] moved the wrong way: the first position that moves is {found} instead "
        "of {asked}{evidence}"),
    ROW(constant_position, positions, "{at} are {found} for every token{on_axis}{evidence}"),
    ROW(position_step, positions, "{at} are {found} times those expected{on_axis}{evidence}"),
    ROW(wrapped_positions, positions, "{at} are wrapped at {type}{on_axis}{evidence}"),
    ROW(rounded_positions, positions, "{at} are rounded to {type}{on_axis}{evidence}"),
    ROW(reversed_positions, positions, "{at} are in reverse order{on_axis}{evidence}"),
    ROW(padded_positions, positions, "{at} begin at {found} with token {token}, as after <{token} "
        "tokens{several}><{token} token{one}> of padding{on_axis}{evidence}"),
    ROW(restarted_positions, positions, "{at} begin again at {found} with token {token}{on_axis}{evidence}"),
    ROW(counted_positions, positions, "{at} count the tokens from {found} up{on_axis}{evidence}"),
    ROW(other_positions, positions, "{at} are not those expected: the first that differs is {found} instead of "
        "{asked}{on_axis}{evidence}"),
    ROW(doubled, twice, "{rotated} twice: every angle is double (positions that are doubled, or a speed that is, would "
        "look the same){on_axis}{evidence}"),
    ROW(twice_as_asked, twice, "{rotated} twice, both times as the config asks"),
    ROW(twice_mixed, twice, "{rotated} twice, first in the {first} pairing and then in the {second} pairing"),
    ROW(table_of_other_pairing, pairing, "{rotated} in the {found} pairing with cos and sin that are laid out for the "
        "{table} pairing (a mix of both)"),
    ROW(in_place, pairing, "{rotated} in place: the second element of each pair is computed from the new first one "
        "instead of the old, in the {pairing} pairing"),
    ROW(without_second_sin, pairing, "{rotated} by half: the second element of each pair is multiplied by cos and "
        "lacks the first times sin, in the {pairing} pairing"),
    ROW(base, base, "{rotated} with base {base}< and {scaling}><, the base of ntk_aware with factor {ntk_factor}>< and "
        "without the scaling {left_out}>{asks}"),
    ROW(scaling, scaling, "{rotated} with {scaling}{asks}"),
    ROW(scaling_left_out, scaling, "{rotated} without the scaling {left_out}{asks}"),
    ROW(linear, scaling, "{rotated} at the asked frequencies divided by {factor}, as linear scaling does (positions "
        "{step} times as large would look the same){on_axis}{evidence}"),
    ROW(short_list, scaling, "{rotated} with the short list of longrope, as for lengths up to {trained}{asks}"),
    ROW(long_list, scaling, "{rotated} with the long list of longrope, as for lengths above {trained}{asks}"),
    ROW(within_length, scaling, "{rotated} as {scaling} does for lengths up to {trained}{asks}"),
    ROW(other_length, scaling, "{rotated} as {scaling} does for {tokens} tokens (base {base}){asks}"),
    ROW(scaling_twice, scaling, "{rotated} with the scaling {scaling} applied twice{asks}"),
    ROW(own_time, scaling, "{rotated} at the frequencies of each token's own time, {scaling} for lengths {lengths}<, "
        "...{more}>{asks}"),
    ROW(unknown_speeds, scaling, "{rotated} at speeds that no known base and scaling gives{asks}"),
    ROW(some_pairs_still, scaling, "{some_pairs} do not rotate{too_slow}{asks}"),
    ROW(some_pairs_slow, scaling, "{some_pairs} are slower or do not rotate: pair {pair} is at most {times} times as "
        "fast as asked{too_slow}{asks}"),
    ROW(some_pairs_other, scaling, "{some_pairs} are {least}< to {most}> times as fast as asked{asks}"),
    ROW(exponent_half, scaling, "{rotated} with the exponent i/d instead of 2i/d{mistaken}"),
    ROW(exponent_double, scaling, "{rotated} with the exponent 4i/d instead of 2i/d{mistaken}"),
    ROW(exponent_less_2, scaling, "{rotated} with the exponent 2i/(d - 2) instead of 2i/d{mistaken}"),
    ROW(exponent_of_head, scaling, "{rotated} with the exponent 2i/head_dim, of the whole head, instead of "
        "2i/d{mistaken}"),
    ROW(exponent_of_block, scaling, "{rotated} with the exponent 2i/rotary_dim, of the rotated block, instead of "
        "2i/d{mistaken}"),
    ROW(exponent_odd, scaling, "{rotated} with the exponent (2i + 1)/d instead of 2i/d{mistaken}"),
    ROW(exponent_of_neighbours, scaling, "{rotated} with the speeds of neighbours in pairs, the exponent 2 "
        "floor(i/2)/d{mistaken}"),
    ROW(pairs_from_1, scaling, "{rotated} with pairs that are counted from 1, each with the speed of the "
        "next{mistaken}"),
    ROW(pairs_from_minus_1, scaling, "{rotated} with pairs that are counted from -1, each with the speed of the one "
        "before{mistaken}"),
    ROW(axes_continued, scaling, "{rotated} with frequencies that do not begin again for each axis{mistaken}"),
    ROW(yarn_on_ntk, scaling, "{rotated} with the base of ntk_aware in the pairs that yarn keeps{asks}"),
    ROW(frequencies_rolled_early, scaling, "{rotated} with frequencies one place too early, the first at the "
        "end{asks}"),
    ROW(frequencies_rolled_late, scaling, "{rotated} with frequencies one place too late, the last at the "
        "beginning{asks}"),
    ROW(frequencies_early, scaling, "{rotated} with frequencies one place too early{asks}"),
    ROW(frequencies_late, scaling, "{rotated} with frequencies one place too late{asks}"),
    ROW(frequencies_reversed, scaling, "{rotated} with frequencies in reverse order{asks}"),
    ROW(another_order, layout, "[is|are] written with [its|their] {unit}s in another order: {unit} {after} after is "
        "{unit} {before} before", Join::clause, "in that order"),
    ROW(before_norm, elements, "before lacks the norm of queries and keys (q_norm, k_norm<, a "
        "LayerNorm{mean}>), and after has it: each {unit} differs by another factor, and each element by a weight; "
        "dump both after the norm", Join::colon, "after the norm"),
    ROW(norm_in_front, elements, "[is|are] normed before the rotation, with a weight for each element; the model "
        "norms queries and keys after it", Join::clause, "after that norm"),
    ROW(norm_behind, elements, "[is|are] normed after the rotation, with a weight for each element; the model norms "
        "queries and keys before it, or not at all", Join::clause, "before that norm"),
    ROW(factors, elements, "{multiplied} by another factor in each head of each token, as by scales that were left "
        "out", Join::clause, "but for that"),
    ROW(still_elements_zero, elements, "[is|are] zero in elements "
        "{elements}{not_asked}", Join::clause, "but for that", names_elements),
    ROW(still_elements_multiplied, elements, "{multiplied} by {factor} in elements "
        "{elements}{not_asked}", Join::clause, "but for that", names_elements),
    ROW(still_elements_differ, elements, "[differs|differ] in elements "
        "{elements}{not_asked}", Join::clause, "but for that", names_elements),
    ROW(single_elements, elements, "[is|are] as the config asks but for <{count} elements: >element {element} of head "
        "{head} at token {token}< of batch row {row}>< and {others} others>< and {other} "
        "other>", Join::clause, "and", names_all),
    ROW(table_entries, elements, "[is|are] as the config asks but for {of} of pair {pair} at row {row}, which is "
        "{found} instead of {asked}<, and {others} others>"),
    ROW(another_tensor, layout, "after is {other} before, rotated: another tensor"),
    ROW(not_to_rotate, as_configured, "[is|are] not rotated, as {reason}"),
    ROW(rotated_nonetheless, layer, "{rotated}< as queries and keys of the model are{as_others}>; {reason}"),
    ROW(changed_nonetheless, elements, "[is|are] changed; {reason}"),
    ROW(same, as_configured, "[is|are] the same in both files"),
    ROW(same_in_another_order, pairing, "[is|are] the same in another order of elements{order_of_two}; {scores}"),
    ROW(same_but_noise, noise, "[is|are] the same but for differences beyond rounding, of {rms} rms"),
    ROW(further, offset, "{rotated} <{positions} positions><{position} position> <further{late}><less far{early}> in "
        "the second file{order_of_two}; {scores}"),
    ROW(turned_otherwise, cannot_tell, "{rotated} or multiplied in another way in the second file, not by one "
        "offset: check each file against the tensors before the rotation"),
    ROW(other_as_asked, as_configured, "this is found in the <second{second}><first{first}> file, if the other one "
        "is as the config asks", Join::tail),
    ROW(another_in_second, cannot_tell, "[is|are] another tensor in the second file: no rotation leads from one to the "
        "other"),
    ROW(zero_in_both, as_configured, "[is|are] zero everywhere in both files"),
    ROW(rest_as_asked, as_configured, "all else is as the config asks", Join::tail),
    ROW(as_asked_in, as_configured, "[it is|they are] as the config asks in {place} "
        "only", Join::tail, "and", names_all),
    ROW(others_open, as_configured, "the others were not taken apart", Join::tail),
    ROW(open_layers, as_configured, "some layers of the model rotate nothing (NoPE): --layer says which it "
        "is", Join::tail),
    ROW(rope_of_other_layers, as_configured, "[it is|they are] as {rope} asks, of other layers", Join::tail),
    ROW(one_file, cannot_tell, "[stands|stand] in one of the two files only"),
    ROW(at_position_0, cannot_tell, "[is|are] as [it|they] should be, but no rope moves anything at position 0, or "
        "zeros: --positions says where the tokens are"),
    ROW(one_token, cannot_tell, "[is|are] the same at every token, before and after: one token for all shows no "
        "rotation"),
    ROW(one_of_two_layouts, cannot_tell, "[is|are] equal as {found}<, a shard of the heads{shard}>, and not as "
        "{asked}, which has the same shape: --layout says which"),
    ROW(open_rope, cannot_tell, "{rotated} as {rope} asks, and nothing says that it is the rope of [its layer|their "
        "layers]: --layer or --rope says which"),
    ROW(other_layout, as_configured, "{layout} has the same shape", Join::tail),
    ROW(query_factor_open, cannot_tell, "{rotated} as the config asks, and not multiplied by the model's factor of "
        "queries, {factor} at [its|their] positions: the dump was taken before that multiplication, or the factor "
        "is missing; --query-scale requires it"),
    ROW(query_factor, as_configured, "multiplied by the model's factor of queries, {factor} at [its|their] "
        "positions", Join::tail),
    ROW(norm_behind_asked, as_configured, "the tensor after includes the norm that follows the rotation; its weights "
        "were found in the data", Join::tail),
    ROW(still_block, as_configured, "elements {first} to {last} are the same before and after: another rope "
        "rotates them, and --rope names only one", Join::tail),
};
#undef ROW

constexpr std::pair<const char*, const char*> fragments[] = {
    {"evidence", "< (fits to {residual}; the config's rope only to {asked_residual})>"},
    {"asks", "<; the model asks {asked}>{evidence}"},
    {"rotation", "<: <{pairing} pairing, ><all {all} elements><elements {first} to {last}>, layout {layout} (fits to "
                 "{residual})><, and so in each of the {blocks} blocks>"},
    {"on_axis", "< on {axis}><, and as far off on the other axes{others}>< on every axis{every_axis}>"},
    {"listens", "<: pair {pair} turns by {found}, the model asks {asked}>{evidence}"},
    {"rotated", "[is|are] rotated"},
    {"multiplied", "[is|are] multiplied"},
    {"at", "[is|are] rotated at positions that"},
    {"mistaken", "<, d = {d}>< (as base {as_base})>"
                 "< and without the scaling {left_out}>{on_axis}{asks}"},
    {"some_pairs", "{rotated} at the <speeds of {width} elements (exponent 2i/{width})><asked speeds{asked_width}>"
                   " in pairs {right} only; pairs {pairs}"},
    {"too_slow", "< (pairs {open} are too slow to tell)>"},
    {"order_of_two", "<, halves in the first file and pairs side by side in the second{halves_first}>"
                     "<, pairs side by side in the first file and halves in the second{pairs_first}>"},
    {"not_asked", ", which the model does not rotate"},
    {"reason", "<the model's layer {layer} rotates nothing (NoPE)><no model rotates values{value}>"},
    {"not_finite", "{when} the rotation but got {value} at <batch {batch}, >token {token}, head {head}, "
                   "element {element}"},
};
// clang-format on
constexpr const char* scores_of_one = "scores of q and k that both have it are the same";
constexpr const char* scores_of_both = "both have it, so their scores are the same";

constexpr bool is_in_order() {
  std::size_t i = 0;
  while (i < std::size(cause_rows) && cause_rows[i].cause == static_cast<Cause>(i)) ++i;
  return i == std::size(cause_rows) && i == static_cast<std::size_t>(Cause::still_block) + 1;
}
static_assert(is_in_order(), "a row for each cause, in the order of the enumeration");

bool is_remark(const Row& row) { return row.join == Join::tail || row.join == Join::suffix; }
std::string sign_of(Join join) { return join == Join::clause ? " " : ": "; }
std::string begin_of(Join join) { return join == Join::unknown ? "cannot tell, because " : ""; }

const Row& row_of(const Finding& one) { return cause_rows[static_cast<std::size_t>(one.cause)]; }

// ---- numbers and places as text ------------------------------------------------------------------

std::string number_text(double value, int digits) {
  if (digits > 0) return detail::significant(value, digits);
  if (value == std::floor(value) && std::abs(value) < 1e15) return std::to_string(static_cast<std::int64_t>(value));
  std::string text = detail::fixed(value, 6);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string words_of(const Scaling& scaling) {
  if (std::holds_alternative<Unscaled>(scaling)) return "no scaling";
  std::vector<std::string> values;
  if (const double* factor = scalings::value_of<double>(scaling, "factor"))
    values.push_back("factor " + detail::significant(*factor, 6));
  if (const auto* trained = scalings::value_of<std::int64_t>(scaling, "trained_length"); trained && *trained > 0)
    values.push_back("trained length " + std::to_string(*trained));
  if (const Yarn* yarn = std::get_if<Yarn>(&scaling)) {
    if (yarn->beta_fast != 32 || yarn->beta_slow != 1) {
      values.push_back("beta_fast " + detail::significant(yarn->beta_fast, 6));
      values.push_back("beta_slow " + detail::significant(yarn->beta_slow, 6));
    }
    if (!yarn->truncate) values.emplace_back("not truncated");
  }
  return std::string("the scaling ") + name(scaling) + (values.empty() ? "" : " (" + files::listed(values) + ")");
}

std::string rope_text(const NamedRope& rope) {
  std::string text = rope.base ? "base " + detail::significant(*rope.base, 10) : "";
  if (!rope.scaling) return text;
  if (rope.base) text += " and ";
  const LongRope* lists = std::get_if<LongRope>(&*rope.scaling);
  if (lists == nullptr || rope.length == 0) {
    text += words_of(*rope.scaling);
  } else if (lists->long_factor == lists->short_factor) {
    text += "the one list of longrope";
  } else {
    text += rope.length > lists->trained_length ? "the long list of longrope" : "the short list of longrope";
  }
  return text + (rope.length == 0 ? "" : " for " + std::to_string(rope.length) + " tokens");
}

std::string value_text(const Number& number) {
  const auto text_of_any = [&](const auto& value) -> std::string {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, bool>) return "";
    if constexpr (std::is_same_v<Value, double>) return number_text(value, number.digits);
    if constexpr (std::is_same_v<Value, std::string>) return detail::with_familiar_name(value);
    if constexpr (std::is_same_v<Value, std::vector<std::int64_t>>) return files::ranges(value);
    if constexpr (std::is_same_v<Value, NamedRope>) return rope_text(value);
    std::vector<std::string> texts;
    if constexpr (std::is_same_v<Value, std::vector<double>>) {
      for (const double one : value) texts.push_back(number_text(one, number.digits));
    }
    return files::listed(texts);
  };
  return std::visit(text_of_any, number.value);
}

// The places of a finding that its sentence does not name itself: "batch row 1, tokens 0-15".
std::string place_of(const Where& where, std::uint8_t named) {
  std::string text;
  const auto add = [&](const char* unit, const std::vector<std::int64_t>& some) {
    if (some.empty()) return;
    text += (text.empty() ? "" : ", ") + std::string(unit) + (some.size() > 1 ? "s " : " ") + files::ranges(some);
  };
  if (named == names_all) return "";
  add("batch row", where.rows);
  if (named != names_heads) add("head", where.heads);
  add("token", where.tokens);
  return text;
}

// ---- a sentence ----------------------------------------------------------------------------------

// Fills templates of one finding.
struct Filler {
  const Finding& finding;
  bool many = false;  // there are several tensors
  bool both = false;  // the tensors are queries and keys

  std::string filled(const char* sentence) const {
    std::string text;
    fill(text, sentence, '\0');
    return text;
  }

  // Fills up to the sign `end` and moves `at` past it. Returns false if a key has no value.
  bool fill(std::string& text, const char*& at, char end) const {
    bool complete = true;
    for (; *at != end; ++at) {
      if (*at == '<') {
        std::string some;
        if (fill(some, ++at, '>')) text += some;
      } else if (*at == '[') {
        const std::string one = until(++at, '|'), several = until(++at, ']');
        text += many ? several : one;
      } else if (*at == '{') {
        complete = add_value(text, until(++at, '}')) && complete;
      } else {
        text += *at;
      }
    }
    return complete;
  }

  static std::string until(const char*& at, char end) {
    std::string text;
    for (; *at != end; ++at) text += *at;
    return text;
  }

  bool add_value(std::string& text, const std::string& key) const {
    const auto number = std::ranges::find(finding.numbers, key, &Number::name);
    const auto add = [&](const std::string& value) {
      text += value;
      return true;
    };
    if (number != finding.numbers.end()) return add(value_text(*number));
    if (key == "scores") return add(both ? scores_of_both : scores_of_one);
    if (key == "place") return add(place_of(finding.where, names_none));
    if (key == "pairs") return add(files::ranges(finding.where.pairs));
    if (key == "elements") return add(files::ranges(finding.where.elements));
    const auto fragment =
        std::ranges::find_if(fragments, [&](const auto& one) { return std::string_view(one.first) == key; });
    return fragment != std::end(fragments) && add(filled(fragment->second));
  }
};

bool are_equal(const Number& a, const Number& b) {
  if (a.name != b.name || a.value.index() != b.value.index()) return false;
  const auto *x = std::get_if<double>(&a.value), *y = std::get_if<double>(&b.value);
  if (x == nullptr) return a.value == b.value;
  const double shown = a.digits > 0 ? std::pow(10, 1 - a.digits) * std::abs(*x) : 1e-6;
  return *x == *y || std::abs(*x - *y) <= a.error + b.error + shown;
}

// The number with the digits that its sentence has.
Json value_json(const Number& number) {
  const auto json_of_any = [&](const auto& value) -> Json {
    using Value = std::decay_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, double>) {
      if (value == std::floor(value) && std::abs(value) < 1e15) return static_cast<std::int64_t>(value);
      const bool shown = number.digits > 0 && std::isfinite(value);
      return files::finite_or_null(shown ? Json::parse(number_text(value, number.digits)).template get<double>()
                                         : value);
    } else if constexpr (std::is_same_v<Value, NamedRope>) {
      Json json;
      if (value.base) json["base"] = *value.base;
      if (value.scaling) json["scaling"] = rotary::name(*value.scaling);
      if (value.scaling) json["scaling_parameters"] = fields_json(*value.scaling);
      if (value.length > 0) json["length"] = value.length;
      return json;
    } else {
      return value;
    }
  };
  return std::visit(json_of_any, number.value);
}

}  // namespace

const char* name(Cause cause) noexcept { return cause_rows[static_cast<std::size_t>(cause)].name; }

bool operator==(const Finding& a, const Finding& b) {
  return a.verdict == b.verdict && a.cause == b.cause && a.where == b.where &&
         std::ranges::equal(a.numbers, b.numbers, are_equal);
}

Finding finding(Cause cause, std::vector<Number> numbers, Where where) {
  return {cause_rows[static_cast<std::size_t>(cause)].verdict, cause, std::move(numbers), std::move(where)};
}

// The infinite error makes residuals equal: they tell no fault from another.
Number residual(double value) { return {"residual", value, 2, std::numeric_limits<double>::infinity()}; }

Finding with_residuals(Finding one, double found, double asked) {
  one.numbers.push_back(residual(found));
  one.numbers.push_back(residual(asked));
  one.numbers.back().name = "asked_residual";
  return one;
}

bool is_fault(const Finding& one) {
  const bool is_right = one.verdict == Verdict::as_configured || one.cause == Cause::only_noise;
  return !is_right && !is_remark(row_of(one));
}

std::int64_t count_faults(const std::vector<Finding>& found) { return std::ranges::count_if(found, is_fault); }

bool is_about_rest(const Finding& one) { return row_of(one).join == Join::tail; }

std::string fill(const char* sentence, const Finding& one) { return Filler{one}.filled(sentence); }

std::string render(const Finding& one) {
  const Row& row = row_of(one);
  const std::string place = place_of(one.where, row.names), sign = place.empty() ? "" : sign_of(row.join);
  return (place.empty() ? "" : "in " + place) + sign + begin_of(row.join) + fill(row.sentence, one);
}

std::string render(const std::vector<std::string>& names, const std::vector<Finding>& found) {
  const auto has = [&](tools::Role role) { return std::ranges::find(names, role, tools::role_of) != names.end(); };
  const bool many = names.size() > 1, both = many && has(tools::Role::q) && has(tools::Role::k);
  std::string text;
  const Row* last = nullptr;  // the row of the clause before
  std::string last_place;
  for (const Finding& one : found) {
    const Row& row = row_of(one);
    const std::string clause = Filler{one, many, both}.filled(row.sentence);
    if (is_remark(row)) {
      text += (row.join == Join::tail ? "; " : "") + clause;
      continue;
    }
    const std::string place = place_of(one.where, row.names);
    const bool elsewhere = last == nullptr || place != last_place;
    if (last == nullptr) {
      const std::vector<std::int64_t>& elements = one.where.elements;
      if (row.names == names_none && !elements.empty())
        text = "in elements " + std::to_string(elements.front()) + " to " + std::to_string(elements.back()) +
               " of each head: ";
      text += files::listed(names, " and ");
    } else if (elsewhere) {
      text += ";";
    } else {
      text += std::string("; ") + last->next + (many ? " they" : " it");
    }
    text += (elsewhere && !place.empty() ? " in " + place : "") + sign_of(row.join) + begin_of(row.join) + clause;
    last = &row;
    last_place = place;
  }
  return text;
}

Json finding_json(const Finding& one) {
  Json json;
  json["verdict"] = name(one.verdict);
  json["cause"] = name(one.cause);
  json["numbers"] = Json::object();
  for (const Number& number : one.numbers) json["numbers"][number.name] = value_json(number);
  json["where"] = Json::object();
  for (const auto& [place, some] : {std::pair("rows", &one.where.rows),
                                    {"heads", &one.where.heads},
                                    {"tokens", &one.where.tokens},
                                    {"pairs", &one.where.pairs},
                                    {"elements", &one.where.elements}}) {
    if (!some->empty()) json["where"][place] = *some;
  }
  return json;
}

}  // namespace rotary::diagnose
