// A safetensors file with some tensors changed on the way, and the pairing in its metadata.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "change.h"
#include "folder.h"

namespace rotary::convert {

// The bytes of a file: this JSON as its header, then its tensors, those of `changes` (by their place in the header)
// changed. Only pieces are in memory.
void rewrite(const Shard&, std::string_view header, const std::map<std::size_t, const Change*>& changes, const Sink&);

void copy_bytes(const files::InputFile&, std::uint64_t begin, std::uint64_t end, const Sink&);

// What the metadata of a converted file say.
struct PairingStamp {
  Pairing from = Pairing::half;
  Pairing to = Pairing::interleaved;
  std::string part;       // of the config; empty: the whole model
  std::string added_key;  // of config.json, which did not have it; empty: none
};
// Whether the conversion undoes the one that the metadata tell of.
bool leads_back(const std::map<std::string, std::string>& metadata, Pairing to);
// The header's JSON with the stamp; without the stamp that is there where the conversion leads back.
std::string stamped_header(const files::FileHeader&, const PairingStamp&);

}  // namespace rotary::convert
