// What the metadata of a converted file say of its pairing, and the file with some tensors changed on the way.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "change.h"
#include "folder.h"

namespace rotary::conversion {

using Metadata = std::map<std::string, std::string>;

// The metadata keys of a converted file beside files::pairing_key and files::part_key.
inline constexpr const char* from_key = "rotary.pairing_before";  // the pairing of the first source
inline constexpr const char* given_key = "rotary.pairing_given";  // "true": the file said its pairing, but no from_key
// The key of config.json that changed was "absent" or "null"; or that of the indexer is of another pairing and stays.
inline constexpr const char* config_key = "rotary.config_before";
inline constexpr const char* own_indexer_word = "own indexer";
inline constexpr const char* metadata_key = "rotary.metadata_before";  // the object without entries that was there
inline constexpr const char* blanks_key = "rotary.header_blanks";  // behind the header's JSON, if not the usual ones

struct PairingStamp {
  Pairing from = Pairing::half;
  Pairing to = Pairing::interleaved;
  std::string part = {};    // of the config; empty: the whole model
  std::string config = {};  // value of config_key; empty: none
};

// Throws FORMAT for a stamp that no conversion wrote.
void check_stamp(const Metadata&, const std::string& file);
// Whether the conversion undoes the one that the metadata tell of.
bool leads_back(const Metadata&, Pairing to);
// The header with the stamp, framed; without the stamp that is there, and with the blanks that were, where the
// conversion leads back.
std::string stamped_header(const files::FileHeader&, const PairingStamp&);

// Streams `header`, then all tensors, permuting those in `changes` (index in the shard's header).
void rewrite(const Shard&, std::string_view header, const std::map<std::size_t, const Change*>& changes, const Sink&);

}  // namespace rotary::conversion
