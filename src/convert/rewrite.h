// A safetensors file with some tensors changed on the way, and the pairing in its metadata.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "change.h"
#include "folder.h"

namespace rotary::convert {

// The bytes of a file: this header, then its tensors, those of `changes` (by their place in the header)
// changed. Only pieces are in memory.
void rewrite(const Shard&, std::string_view header, const std::map<std::size_t, const Change*>& changes, const Sink&);

// What the metadata of a converted file say.
struct PairingStamp {
  Pairing from = Pairing::half;
  Pairing to = Pairing::interleaved;
  std::string part;    // of the config; empty: the whole model
  std::string config;  // what the changed key of config.json was: "absent", "null"; empty: the other word
};
// Throws FORMAT if they remember something of the source that no source has.
void check_stamp(const std::map<std::string, std::string>& metadata);
// Whether the conversion undoes the one that the metadata tell of.
bool leads_back(const std::map<std::string, std::string>& metadata, Pairing to);
// The header with the stamp, framed; without the stamp that is there, and with the blanks that were, where the
// conversion leads back.
std::string stamped_header(const files::FileHeader&, const PairingStamp&);

}  // namespace rotary::convert
