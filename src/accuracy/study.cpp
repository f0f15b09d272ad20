#include "files/text/json.h"
#include "values/fail.h"
#include "values/number_text.h"
#include "ways.h"

namespace rotary::accuracy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t last_by_default = 9999999;
constexpr std::int64_t last_looked_at = std::int64_t{1} << 24;  // float32 holds no odd position beyond

// All decades to the one beyond the context's.
std::int64_t last_position(const ModelRope& used) {
  std::int64_t last = last_by_default;
  while (used.context > last / 10 && last < 1000000000000000) last = last * 10 + 9;
  return last;
}

std::int64_t count_of(const std::vector<Decade>& decades) {
  std::int64_t count = 0;
  for (const Decade& decade : decades) count += static_cast<std::int64_t>(decade.positions.size());
  return count;
}

std::string sampling_of(bool named, std::int64_t count) {
  if (named && count == 1) return "the one position of --positions";
  if (named) return "the " + detail::with_separators(count) + " positions of --positions";
  return "every position to " + std::to_string(all_below - 1) + "; of each decade beyond, " + std::to_string(spread) +
         " that divide it evenly, its last " + std::to_string(spread) + ", and the powers of two and their neighbours";
}

// "1e-3", "0.02", "1".
std::string tolerance_text(double value) {
  if (value >= 0.01) return detail::shortest(value);
  std::string text = detail::number_text(value, std::chars_format::scientific);
  const std::size_t sign = text.find('e') + 1;
  if (text.at(sign + 1) == '0') text.erase(sign + 1, 1);
  return text;
}

std::string advice_of(const Study& study) {
  const std::string within = "float32 is within " + tolerance_text(study.tolerance);
  const std::int64_t context = study.used.context;
  const std::string last = std::to_string(study.reach.last);
  if (study.reach.last < 0) return within + " nowhere; use exact";
  if (study.reach.to_the_end) return within + " up to " + last + ", as far as was looked; exact is at every position";
  if (context > 0 && study.reach.last >= context - 1) {
    return within + " up to " + last + ", which covers the context of " + std::to_string(context) +
           "; beyond, use exact";
  }
  const std::string reminder = context > 0 ? " (the context is " + std::to_string(context) + ")" : "";
  return within + " up to " + last + "; beyond" + reminder + ", use exact";
}

// ---- JSON ----

Json json_of_rope(const Study& study) {
  const Rope& rope = study.used.rope;
  return {{"index", study.rope},
          {"part", study.used.part},
          {"head_dim", rope.head_dim},
          {"rotary_dim", rope.rotary_dim},
          {"base", rope.inv_freq.empty() ? Json(rope.base) : Json(nullptr)},
          {"scaling", name(rope.scaling)},
          {"attention_factor", study.frequencies.attention_factor},
          {"context", study.used.context > 0 ? Json(study.used.context) : Json(nullptr)},
          {"length", study.length},
          {"inv_freq", study.frequencies.inv_freq}};
}

Json json_of(const Largest& largest) {
  const Position& position = largest.position;
  return {{"position", position.is_whole() ? Json(position.whole()) : Json(position.as_double())},
          {"pair", largest.pair},
          {"of", largest.of_sine ? "sin" : "cos"}};
}

Json json_of(const WayErrors& way) {
  Json cos_sin = Json::array(), at = Json::array(), scores = Json::array(), rms = Json::array();
  for (const DecadeErrors& errors : way.decades) {
    cos_sin.push_back(errors.cos_sin ? Json(errors.cos_sin->error) : Json(nullptr));
    at.push_back(errors.cos_sin ? json_of(*errors.cos_sin) : Json(nullptr));
    scores.push_back(errors.scores ? Json(errors.scores->largest) : Json(nullptr));
    rms.push_back(errors.scores ? Json(errors.scores->rms) : Json(nullptr));
  }
  return {{"way", info(way.way).name},   {"meaning", info(way.way).meaning}, {"cos_sin", std::move(cos_sin)},
          {"cos_sin_at", std::move(at)}, {"scores", std::move(scores)},      {"scores_rms", std::move(rms)}};
}

}  // namespace

Study study(const Request& request, const Executor& executor,
            const std::function<void(std::int64_t, std::int64_t)>& progress) {
  if (!(request.tolerance >= 1e-6 && request.tolerance <= 1))
    fail(Code::VALUE, "accuracy", "tolerance must be from 1e-6 to 1 but got ", request.tolerance);
  Study study;
  study.rope = request.rope;
  study.used = request.model.ropes.at(request.rope);
  study.frequencies = request.frequencies;
  study.length = request.length;
  study.tolerance = request.tolerance;
  const bool named = !request.positions.empty();
  study.decades = named ? decades_of(request.positions) : default_decades(last_position(study.used));
  const Subject subject(study.used.rope, study.frequencies);
  const std::int64_t count = count_of(study.decades);
  study.ways = measure(subject, study.decades, executor, [&](std::int64_t done) {
    if (progress) progress(done, count);
  });
  study.reach = float32_reach(subject, study.tolerance, last_looked_at);
  study.sampling = sampling_of(named, count);
  if (study.frequencies.summed_axes > 0) study.sampling += "; of each axis alone, the other coordinates at 0";
  if (study.used.coordinates && !named) study.sampling += "; the model's own coordinates: rotary positions";
  study.advice = advice_of(study);
  return study;
}

std::string to_json(const Study& study) {
  Json decades = Json::array(), ways = Json::array();
  for (const Decade& decade : study.decades) {
    decades.push_back({{"first", decade.first}, {"last", decade.last}, {"positions", decade.positions.size()}});
  }
  for (const WayErrors& way : study.ways) ways.push_back(json_of(way));
  const Json within = {
      {"tolerance", study.tolerance}, {"last", study.reach.last}, {"to_the_end", study.reach.to_the_end}};
  return files::json_text({{"rope", json_of_rope(study)},
                           {"decades", std::move(decades)},
                           {"ways", std::move(ways)},
                           {"float32_within", within},
                           {"advice", study.advice},
                           {"sampling", study.sampling}});
}

}  // namespace rotary::accuracy
