#include "rewrite.h"

#include <algorithm>
#include <utility>

#include "files/tensors/checkpoint.h"
#include "files/text/json.h"
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
  std::string json = header.json.substr(0, header.json.find_last_not_of(' ') + 1);
  const bool has_metadata = files::JsonText(json).raw({metadata_name}).has_value();
  const bool back = leads_back(header.header.metadata, stamp.to);
  if (!has_metadata) {
    const bool last = header.header.entries.empty();
    json.insert(json.find('{') + 1, std::string("\"") + metadata_name + "\":{}" + (last ? "" : ","));
  }
  files::JsonText text(std::move(json));
  for (const auto& [key, value] : {std::pair(files::pairing_key, std::string(name(stamp.to))),
                                   {from_key, std::string(name(stamp.from))},
                                   {files::part_key, stamp.part},
                                   {added_key, stamp.added_key}}) {
    if (back) {
      text.remove({metadata_name, key});
    } else if (!value.empty()) {
      text.set({metadata_name, key}, files::json_value(key, files::Json(value).dump()));
    }
  }
  if (back && text.raw({metadata_name}) == "{}") text.remove({metadata_name});
  return text.text();
}

}  // namespace rotary::convert
