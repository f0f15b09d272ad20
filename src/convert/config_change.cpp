#include "config_change.h"

#include <algorithm>

#include "files/text/json_edit.h"
#include "rewrite.h"

namespace rotary::convert {
namespace {

std::vector<std::string> words_of(const std::string& dotted) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < dotted.size();) {
    const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
    words.push_back(dotted.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

}  // namespace

std::vector<ConfigChange> config_changes(const Plan& plan, const TextPart& part) {
  if (part.pairing_key.empty()) return {};
  const std::string word = plan.to == Pairing::half ? "false" : "true";
  ConfigChange change{.path = words_of(part.path), .key = part.pairing_key, .before = "", .after = word};
  if (part.key_is_there) change.before = plan.to == Pairing::half ? "true" : "false";
  if (leads_back(plan.folder.shards.front().header.header.metadata, plan.to) &&
      common_metadata(plan.folder, added_key) == part.pairing_key)
    change.after.clear();
  return {change};
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
  if (part.pairing_key.empty()) {
    plan.notes.push_back("no key of the config of " + plan.model_type + " says the pairing: code that reads it takes " +
                         name(plan.from) + " weights, so load the converted ones only where the pairing is set to " +
                         name(plan.to));
  }
  if (plan.indexers) {
    plan.notes.push_back("the indexers of the sparse attention have a pairing of their own and are left as they are");
  }
  for (const std::string& other : part.other_parts)
    plan.notes.push_back(other + " is left as it is: an image or audio model with a rope of its own");
}

}  // namespace rotary::convert
