// The config.json of a model of diffusers: the ropes of its class and of the class's parts.
#include <string>
#include <vector>

#include "files/models/diffusers.h"
#include "files/text/json.h"
#include "files/text/nearest.h"
#include "stages.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// ": did you mean FluxTransformer2DModel?"
std::string suggested_class(const std::string& said) {
  std::vector<std::string_view> known;
  for (const DiffusersRope& row : diffusers_ropes()) known.push_back(row.type);
  const std::string_view meant = nearest(said, known);
  return meant.empty() ? "" : ": did you mean " + std::string(meant) + "?";
}

}  // namespace

bool is_diffusers(const Object& root) {
  return root.has("_class_name") || (root.has("_diffusers_version") && !root.has("model_type"));
}

void read_diffusers(Reading& reading, const Object& root) {
  const std::string type = root.text("_class_name").value_or("");
  reading.model.model_type = type;
  if (const std::string_view why = refusal(type); !why.empty()) {
    fail(Code::ROPE, "read_config", "a rope must be a rotation of q and k but ", type, ' ', why);
  }
  if (known_without_rope(type)) {
    reading.note(NoteKind::no_rope, "", "_class_name " + in_quotes(type) + " has no rotary positions of its own");
    return;
  }
  for (const DiffusersRope& row : diffusers_ropes()) {
    const auto [name, path] = class_and_part(row);
    if (name != type) continue;
    const Family family = {.type = name};
    const Part part{reading, std::string(path), root, family};
    read_row(part, row);
    ++reading.parts;
  }
  if (reading.parts != 0) return;
  fail(Code::MODEL_TYPE, "read_config", "a config of diffusers must have a _class_name that is known but this one has ",
       type.empty() ? "none" : in_quotes(type), suggested_class(type));
}

}  // namespace rotary::files
