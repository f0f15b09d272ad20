#include "rewrite.h"

#include <algorithm>

#include "files/tensors/checkpoint.h"
#include "files/text/json_edit.h"

namespace rotary::convert {
namespace {

constexpr const char* metadata_name = "__metadata__";
constexpr std::size_t piece_bytes = std::size_t{1} << 20;

}  // namespace

void copy_bytes(const files::InputFile& file, std::uint64_t begin, std::uint64_t end, const Sink& sink) {
  std::vector<std::byte> piece;
  for (std::uint64_t at = begin; at < end; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, end - at)));
    file.read(at, piece);
    sink(piece);
  }
}

void rewrite(const Shard& shard, std::string_view header, const std::map<std::size_t, const Change*>& changes,
             const Sink& sink) {
  sink(files::bytes_of(files::framed_header(header)));
  const std::vector<files::Entry>& entries = shard.header.header.entries;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const std::uint64_t begin = shard.header.data + entries[e].begin;
    const auto found = changes.find(e);
    if (found == changes.end()) {
      copy_bytes(*shard.file, begin, shard.header.data + entries[e].end, sink);
      continue;
    }
    const Reader read = [&](std::uint64_t offset, std::span<std::byte> out) { shard.file->read(begin + offset, out); };
    stream_changed(entries[e].info, *found->second, read, sink);
  }
}

bool leads_back(const std::map<std::string, std::string>& metadata, Pairing to) {
  const auto before = metadata.find(from_key);
  return before != metadata.end() && before->second == name(to);
}

std::string stamped_header(const files::FileHeader& header, const PairingStamp& stamp) {
  const std::vector<std::string> path{metadata_name};
  std::string text = header.json.substr(0, header.json.find_last_not_of(' ') + 1);
  if (leads_back(header.header.metadata, stamp.to)) {
    for (const char* key : {added_key, files::part_key, from_key, files::pairing_key})
      text = files::without_member(text, path, key);
    if (files::member_text(text, {}, metadata_name) == "{}") text = files::without_member(text, {}, metadata_name);
    return text;
  }
  if (files::member_text(text, {}, metadata_name).empty()) {
    const std::size_t inside = text.find('{') + 1;
    const bool last = header.header.entries.empty();
    text.insert(inside, std::string("\"") + metadata_name + "\":{}" + (last ? "" : ","));
  }
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) text = files::with_member(text, path, key, files::json_string(value));
  };
  add(files::pairing_key, name(stamp.to));
  add(from_key, name(stamp.from));
  add(files::part_key, stamp.part);
  add(added_key, stamp.added_key);
  return text;
}

}  // namespace rotary::convert
