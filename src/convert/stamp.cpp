#include <charconv>
#include <utility>

#include "files/tensors/checkpoint.h"
#include "files/text/json_edit.h"
#include "steps.h"
#include "values/fail.h"

namespace rotary::conversion {
namespace {

// nullptr: there is no such key.
const std::string* value_of(const Metadata& metadata, const char* key) {
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : &found->second;
}

std::size_t blanks_of(const std::string& text) {
  std::size_t blanks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), blanks);
  const bool fits = error == std::errc() && end == text.data() + text.size() && blanks <= files::longest_header;
  if (!fits) fail(Code::FORMAT, operation, blanks_key, " must be a number of bytes but is ", files::in_quotes(text));
  return blanks;
}

void check_empty_object(const std::string& text) {
  const bool is_one = text.starts_with('{') && text.find_first_not_of(" \t\r\n", 1) == text.size() - 1 &&
                      text.size() <= files::longest_header && text.ends_with('}');
  if (is_one) return;
  fail(Code::FORMAT, operation, metadata_key, " must be an object without entries but is ", files::in_quotes(text));
}

// The header as it was before the conversion that the metadata tell of.
std::string header_without_stamp(files::JsonText text, const Metadata& stamped, Pairing to) {
  for (const char* key : {from_key, given_key, files::part_key, config_key, metadata_key, blanks_key})
    text.remove({files::metadata_name, key});
  if (value_of(stamped, given_key) != nullptr) {
    text.set({files::metadata_name, files::pairing_key}, files::Json(name(to)).dump());
  } else {
    text.remove({files::metadata_name, files::pairing_key});
  }
  if (text.raw({files::metadata_name}) == "{}") {
    const std::string* was = value_of(stamped, metadata_key);
    was == nullptr ? text.remove({files::metadata_name}) : text.set({files::metadata_name}, *was);
  }
  const std::string* blanks = value_of(stamped, blanks_key);
  return blanks == nullptr ? files::framed_header(text.text()) : files::framed_header(text.text(), blanks_of(*blanks));
}

std::string stamped_header(const files::FileHeader& header, const PairingStamp& stamp) {
  const std::size_t length = header.json.find_last_not_of(' ') + 1;
  std::string json = header.json.substr(0, length);
  const Metadata& old = header.header.metadata;
  if (leads_back(old, stamp.to)) return header_without_stamp(files::JsonText(std::move(json)), old, stamp.to);
  const std::optional<std::string> metadata = files::JsonText(json).raw({files::metadata_name});
  if (!metadata) {
    const bool last = header.header.entries.empty();
    json.insert(json.find('{') + 1, std::string("\"") + files::metadata_name + "\":{}" + (last ? "" : ","));
  }
  const std::size_t blanks = header.json.size() - length;
  const bool is_usual = blanks == (8 - length % 8) % 8;  // the tensors begin at a multiple of 8 bytes
  files::JsonText text(std::move(json));
  for (const auto& [key, value] : {std::pair(files::pairing_key, std::string(name(stamp.to))),
                                   {from_key, std::string(name(stamp.from))},
                                   {given_key, std::string(old.count(files::pairing_key) != 0 ? "true" : "")},
                                   {files::part_key, stamp.part},
                                   {config_key, stamp.config},
                                   {metadata_key, metadata && old.empty() ? *metadata : std::string()},
                                   {blanks_key, is_usual ? std::string() : std::to_string(blanks)}}) {
    if (!value.empty()) text.set({files::metadata_name, key}, files::Json(value).dump());
  }
  return files::framed_header(text.text());
}

}  // namespace

void check_stamp(const Metadata& metadata, const std::string& file) {
  const auto pairing_of = [&](const char* key) {
    const std::string* word = value_of(metadata, key);
    if (word == nullptr) return Pairing::unset;
    if (*word != name(Pairing::half) && *word != name(Pairing::interleaved)) {
      fail(Code::FORMAT, operation, key, " of ", file, " must be half or interleaved but is ", files::in_quotes(*word));
    }
    return parse_pairing(*word);
  };
  const Pairing now = pairing_of(files::pairing_key), before = pairing_of(from_key);
  if (before != Pairing::unset && (now == Pairing::unset || now == before)) {
    fail(Code::FORMAT, operation, from_key, " of ", file, " must stand beside the other pairing in ",
         files::pairing_key, " but that is ", now == Pairing::unset ? "missing" : "the same");
  }
  if (const std::string* blanks = value_of(metadata, blanks_key)) blanks_of(*blanks);
  if (const std::string* object = value_of(metadata, metadata_key)) check_empty_object(*object);
}

bool leads_back(const Metadata& metadata, Pairing to) {
  const std::string* before = value_of(metadata, from_key);
  return before != nullptr && *before == name(to);
}

void rewrite(const Shard& shard, const PairingStamp& stamp, const std::vector<TensorPlan>& tensors, std::size_t index,
             const Sink& sink) {
  std::map<std::size_t, const Change*> changes;
  for (const TensorPlan& tensor : tensors) {
    if (tensor.shard == index) changes[tensor.entry] = &tensor.change;
  }
  const std::string header = stamped_header(shard.header, stamp);
  sink(files::bytes_of(header));
  for (std::size_t e = 0; e < shard.entries().size(); ++e) {
    const files::Entry& entry = shard.entries()[e];
    const std::uint64_t begin = shard.header.data + entry.begin;
    const auto found = changes.find(e);
    if (found == changes.end()) {
      shard.file->copy(begin, shard.header.data + entry.end, sink);
      continue;
    }
    const Reader read = [&](std::uint64_t offset, std::span<std::byte> out) { shard.file->read(begin + offset, out); };
    stream_changed(entry.info, *found->second, read, sink);
  }
}

}  // namespace rotary::conversion
