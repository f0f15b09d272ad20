#include "config_change.h"

#include <algorithm>

#include "files/text/json_edit.h"
#include "rewrite.h"

namespace rotary::convert {
namespace {

const char* truth(Pairing pairing) { return pairing == Pairing::half ? "false" : "true"; }

}  // namespace

std::vector<ConfigChange> config_changes(const Plan& plan, const TextPart& part, const std::string& json) {
  std::vector<ConfigChange> changes;
  if (part.indexer_interleaved && part.indexer.heads != 0) {
    changes.push_back(
        {.path = files::json_path(part.path), .key = indexer_key, .before = truth(plan.from), .after = truth(plan.to)});
  }
  if (part.pairing_key.empty()) return changes;
  ConfigChange change{.path = files::json_path(part.path), .key = part.pairing_key, .before = "", .after = ""};
  files::JsonPath path = change.path;
  path.push_back(change.key);
  change.before = files::JsonText(json).raw(path).value_or("");
  change.after = truth(plan.to);
  if (leads_back(plan.folder.shards.front().header.header.metadata, plan.to)) {
    const std::string was = common_metadata(plan.folder, config_key);
    if (was == "absent") change.after.clear();
    if (was == "null") change.after = was;
  }
  if (change.before != change.after) changes.push_back(change);
  return changes;
}

std::string changed_config(const std::string& json, const std::vector<ConfigChange>& changes) {
  files::JsonText text(json);
  for (const ConfigChange& change : changes) {
    files::JsonPath path = change.path;
    path.push_back(change.key);
    change.after.empty() ? text.remove(path) : text.set(path, files::json_value(change.key, change.after));
  }
  return text.text();
}

void add_notes(Plan& plan, const TextPart& part) {
  const bool half = plan.model.ropes[part.first_rope].rope.pairing == Pairing::half;
  const Pairing native = half ? Pairing::half : Pairing::interleaved;
  if (part.pairing_key.empty() && plan.to != native) {
    const std::string why = part.has_unread_key ? "transformers does not read rope_interleave of " + plan.model_type +
                                                      ", which stays as it is: its code takes "
                                                : "no key of the config of " + plan.model_type +
                                                      " says the pairing: code that reads it takes ";
    plan.notes.push_back(why + name(native) + " weights, so load the converted ones only where the pairing is set to " +
                         name(plan.to));
  }
  if (part.has_own_code && !part.pairing_key.empty() && !part.key_is_there && plan.to != native) {
    plan.notes.push_back("the checkpoint brings the code of its model (auto_map), which may not read " +
                         part.pairing_key + ": transformers' own class does");
  }
  if (plan.indexers) {
    plan.notes.push_back("the indexers of the sparse attention have a pairing of their own and are left as they are");
  }
  for (const std::string& other : part.other_parts)
    plan.notes.push_back(other + " is left as it is: an image or audio model with a rope of its own");
}

}  // namespace rotary::convert
