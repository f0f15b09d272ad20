#include "xla_frame.h"

#include <cstring>
#include <exception>

#include "rotary/error.h"

namespace rotary::python::xla {

namespace {

constexpr const char* what_to_do = ": install a rotary and a jaxlib that were made for each other (docs/python.md)";

ErrorMessage* error(const Api* api, std::int32_t code, const char* sentence) noexcept {
  CreateError arguments{sizeof(CreateError), nullptr, sentence, code};
  return api->create_error(&arguments);
}

// The version of the caller, where it tells one that this file knows: its checks differ (equality, or a range).
ErrorMessage* describe(const CallFrame& frame, Metadata& metadata) noexcept {
  constexpr std::size_t least = offsetof(Metadata, traits) + sizeof metadata.traits;
  if (metadata.struct_size < least) return nullptr;  // the version that it holds is refused by XLA
  int minor = oldest_minor;
  if (frame.api != nullptr) {
    minor = frame.api->version.minor;
    minor = minor < oldest_minor ? oldest_minor : minor > newest_minor ? newest_minor : minor;
  }
  metadata.version = {sizeof(Version), nullptr, major, minor};
  metadata.traits = 0;
  if (metadata.struct_size >= offsetof(Metadata, state_type) + sizeof metadata.state_type) metadata.state_type = 0;
  return nullptr;
}

std::string version_text(const Version& version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

void check(const CallFrame& frame, const char* operation) {
  const auto fail = [operation](const std::string& sentence) {
    throw Error(Code::INTERNAL, "[" + std::string(operation) + "] " + sentence + what_to_do);
  };
  const Version& version = frame.api->version;
  if (version.major != major || version.minor < oldest_minor) {
    fail("XLA's foreign function interface must be of version 0.1 or newer, before 1.0, but got " +
         version_text(version));
  }
  // The three lists are members, so what follows one lies where its size says.
  if (frame.struct_size < sizeof(CallFrame) || frame.arguments.struct_size != sizeof(Arguments) ||
      frame.results.struct_size != sizeof(Results) || frame.attributes.struct_size != sizeof(Attributes)) {
    fail("the structs of XLA's foreign function interface must have the sizes of versions 0.1 to 0.3 but got others");
  }
  if (frame.stage != Stage::execute) fail("a call must be at the stage of execution but is not");
}

}  // namespace

ErrorMessage* handle(CallFrame* frame, const char* operation, void (*body)(const Call&, const Executor&)) noexcept {
  const Extension* extension = frame->extensions;
  if (extension != nullptr && extension->type == extension_metadata) {
    return describe(*frame, *reinterpret_cast<const MetadataExtension*>(extension)->metadata);
  }
  try {
    check(*frame, operation);
    body(Call(*frame, operation), Threads(*frame));
    return nullptr;
  } catch (const Error& problem) {
    return error(frame->api, invalid_argument, problem.what());
  } catch (const std::exception& problem) {
    return error(frame->api, internal_error, problem.what());
  } catch (...) {
    return error(frame->api, internal_error, "an exception without a sentence");
  }
}

// ---- buffers and attributes ----

void Call::refuse(const std::string& sentence) const {
  throw Error(Code::INTERNAL, "[" + std::string(operation_) + "] " + sentence + ": call it through rotary.jax");
}

const Buffer& Call::buffer(const Arguments& list, std::int64_t at) const {
  if (at < 0 || at >= list.size || list.types[at] != argument_is_buffer) {
    refuse("operand " + std::to_string(at) + " must be an array but got " + std::to_string(list.size) + " operands");
  }
  const auto& found = *static_cast<const Buffer*>(list.values[at]);
  if (found.struct_size < sizeof(Buffer)) refuse("an array must be described by 48 bytes but got fewer");
  return found;
}

const void* Call::attribute(std::string_view name, AttributeType type) const {
  const Attributes& all = frame_.attributes;
  for (std::int64_t i = 0; i < all.size; ++i) {
    if (std::string_view(all.names[i]->letters, all.names[i]->size) != name) continue;
    if (all.types[i] == type) return all.values[i];
    break;
  }
  refuse("the attribute " + std::string(name) + " must be there, of its type, but is not");
}

std::string_view Call::text(std::string_view name) const {
  const auto& found = *static_cast<const Text*>(attribute(name, AttributeType::text));
  return {found.letters, found.size};
}

std::int64_t Call::integer(std::string_view name) const {
  const auto& found = *static_cast<const Scalar*>(attribute(name, AttributeType::scalar));
  if (found.type == DataType::s64) return *static_cast<const std::int64_t*>(found.value);
  if (found.type == DataType::s32) return *static_cast<const std::int32_t*>(found.value);
  if (found.type == DataType::pred) return *static_cast<const bool*>(found.value) ? 1 : 0;
  refuse("the attribute " + std::string(name) + " must be an integer but is not");
}

std::span<const std::int64_t> Call::integers(std::string_view name) const {
  const auto& found = *static_cast<const Array*>(attribute(name, AttributeType::array));
  if (found.type != DataType::s64) refuse("the attribute " + std::string(name) + " must hold integers but does not");
  return {static_cast<const std::int64_t*>(found.data), found.size};
}

std::string shape_text(const Buffer& buffer) {
  std::string text = "[";
  for (std::int64_t d = 0; d < buffer.rank; ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(buffer.dimensions[d]);
  }
  return text + "]";
}

std::int64_t elements(const Buffer& buffer) noexcept {
  std::int64_t count = 1;
  for (std::int64_t d = 0; d < buffer.rank; ++d) count *= buffer.dimensions[d];
  return count;
}

}  // namespace rotary::python::xla
