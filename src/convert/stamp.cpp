#include "stamp.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "files/tensors/checkpoint.h"
#include "files/text/json.h"
#include "files/text/json_edit.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

constexpr const char* operation = "convert";
constexpr const char* metadata_name = "__metadata__";

// Those that bring the tensors to a multiple of 8 bytes.
std::size_t usual_blanks(std::size_t json) { return (8 - json % 8) % 8; }

std::size_t blanks_of(const std::string& text) {
  std::size_t blanks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), blanks);
  const bool fits = error == std::errc() && end == text.data() + text.size() && blanks <= files::longest_header;
  if (!fits)
    fail(Code::FORMAT, operation,
         std::string(blanks_key) + " must be a number of bytes but is " + files::in_quotes(text));
  return blanks;
}

std::string empty_object_of(const std::string& text) {
  const bool is_one = text.starts_with('{') && text.find_first_not_of(" \t\r\n", 1) == text.size() - 1 &&
                      text.size() <= files::longest_header && text.ends_with('}');
  if (!is_one) {
    fail(Code::FORMAT, operation,
         std::string(metadata_key) + " must be an object without entries but is " + files::in_quotes(text));
  }
  return text;
}

}  // namespace

void check_stamp(const Metadata& metadata, const std::string& file) {
  const auto pairing_of = [&](const char* key) {
    const auto found = metadata.find(key);
    if (found == metadata.end()) return Pairing::unset;
    if (found->second != name(Pairing::half) && found->second != name(Pairing::interleaved)) {
      fail(Code::FORMAT, operation,
           std::string(key) + " of " + file + " must be half or interleaved but is " + files::in_quotes(found->second));
    }
    return parse_pairing(found->second);
  };
  const Pairing now = pairing_of(files::pairing_key), before = pairing_of(from_key);
  if (before != Pairing::unset && (now == Pairing::unset || now == before)) {
    fail(Code::FORMAT, operation,
         std::string(from_key) + " of " + file + " must stand beside the other pairing in " + files::pairing_key +
             " but that is " + (now == Pairing::unset ? "missing" : "the same"));
  }
  if (const auto found = metadata.find(blanks_key); found != metadata.end()) blanks_of(found->second);
  if (const auto found = metadata.find(metadata_key); found != metadata.end()) empty_object_of(found->second);
}

void rewrite(const Shard& shard, std::string_view header, const std::map<std::size_t, const Change*>& changes,
             const Sink& sink) {
  sink(files::bytes_of(header));
  const std::vector<files::Entry>& entries = shard.header.header.entries;
  for (std::size_t e = 0; e < entries.size(); ++e) {
    const std::uint64_t begin = shard.header.data + entries[e].begin;
    const auto found = changes.find(e);
    if (found == changes.end()) {
      shard.file->copy(begin, shard.header.data + entries[e].end, sink);
      continue;
    }
    const Reader read = [&](std::uint64_t offset, std::span<std::byte> out) { shard.file->read(begin + offset, out); };
    stream_changed(entries[e].info, *found->second, read, sink);
  }
}

bool leads_back(const Metadata& metadata, Pairing to) {
  const auto before = metadata.find(from_key);
  return before != metadata.end() && before->second == name(to);
}

std::string stamped_header(const files::FileHeader& header, const PairingStamp& stamp) {
  const std::size_t length = header.json.find_last_not_of(' ') + 1;
  const std::size_t blanks = header.json.size() - length;
  std::string json = header.json.substr(0, length);
  const bool back = leads_back(header.header.metadata, stamp.to);
  const std::optional<std::string> metadata = files::JsonText(json).raw({metadata_name});
  const bool empty = metadata && header.header.metadata.empty();
  if (!metadata) {
    const bool last = header.header.entries.empty();
    json.insert(json.find('{') + 1, std::string("\"") + metadata_name + "\":{}" + (last ? "" : ","));
  }
  files::JsonText text(std::move(json));
  const bool usual = blanks == usual_blanks(length);
  const Metadata& old = header.header.metadata;
  const bool given = back ? old.count(given_key) != 0 : old.count(files::pairing_key) != 0 && old.count(from_key) == 0;
  for (const auto& [key, value] : {std::pair(files::pairing_key, std::string(name(stamp.to))),
                                   {from_key, std::string(name(stamp.from))},
                                   {given_key, std::string(given ? "true" : "")},
                                   {files::part_key, stamp.part},
                                   {config_key, stamp.config},
                                   {metadata_key, empty ? *metadata : std::string()},
                                   {blanks_key, usual ? std::string() : std::to_string(blanks)}}) {
    if (back && !(given && key == files::pairing_key)) {
      text.remove({metadata_name, key});
    } else if (!value.empty()) {
      text.set({metadata_name, key}, files::Json(value).dump());
    }
  }
  if (back && text.raw({metadata_name}) == "{}") {
    const auto was = old.find(metadata_key);
    if (was == old.end()) {
      text.remove({metadata_name});
    } else {
      text.set({metadata_name}, empty_object_of(was->second));
    }
  }
  const auto written = old.find(blanks_key);
  if (!back || written == old.end()) return files::framed_header(text.text());
  return files::framed_header(text.text(), blanks_of(written->second));
}

}  // namespace rotary::conversion
