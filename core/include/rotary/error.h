// The exception that the library throws for bad input. Memory or threads that the system refuses are std::bad_alloc and
// std::system_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "rotary/export.h"

namespace rotary {

// The kinds of errors, which docs/errors.md describes. The library, the program and the torch op share them. Existing
// values keep their meaning; a new version may add values.
enum class Code : std::uint8_t {
  SHAPE,           // sizes that do not fit each other
  DTYPE,           // an element type that the operation does not take, or data that is not aligned to it
  ALIAS,           // memory that overlaps where it must not
  POSITION,        // an invalid position
  SCALING,         // an invalid base, scaling or frequency
  PAIRING,         // a pairing that is unset or unknown
  LENGTH,          // a length is needed and was not given
  TARGET,          // an instruction set that is unknown or that this machine lacks
  FILE,            // a file cannot be opened, read or written
  FORMAT,          // a file that is not valid in its format
  TENSOR,          // a tensor that is missing or unsuitable
  JSON,            // text that is not JSON
  CONFIG_KEY,      // a rope key in a config that nothing reads
  CONFIG_VALUE,    // a config value that breaks a rule
  CONFIG_MISSING,  // a config lacks a value that has no default
  MODEL_TYPE,      // an unknown model_type
  ROPE,            // a model has no such rope
  VALUE,           // a number or a word outside its range
  TEXT,            // text that cannot be encoded
  PRESET,          // no preset of that name
  RESUME,          // a run cannot be continued
  CUDA,            // no CUDA, or a CUDA call failed
  DEVICE,          // no such device
  TORCH,           // torch support was not built
  PEER,            // another process of the run is lost
  NUMBER,          // a result that is not finite
  CHECK,           // a check of this build's own results failed
  MEMORY,          // out of memory
  INTERNAL,        // a defect of this library
};
ROTARY_API const char* name(Code) noexcept;         // "SHAPE", ...
ROTARY_API Code parse_code(std::string_view name);  // throws VALUE
ROTARY_API std::span<const Code> codes() noexcept;  // all of them, in the order above

// An error has four values: code, operation, about and rule; what() is the sentence "[operation] about: rule".
class ROTARY_API Error : public std::runtime_error {
 public:
  // operation: the function or command that was called. rule: "rule but got value". about: the file, tensor or key that
  // the rule is about; empty where the rule names it.
  Error(Code code, std::string_view operation, std::string_view rule, std::string_view about = {});
  Code code() const noexcept { return code_; }
  // These three are valid as long as the error.
  std::string_view operation() const noexcept { return {what() + 1, operation_}; }
  std::string_view about() const noexcept { return {what() + operation_ + 3, about_}; }
  std::string_view rule() const noexcept;
  // The same error about outer + ": " + about(), for a caller further up that knows the file or tensor.
  Error about(std::string_view outer) const;

 private:
  std::size_t operation_, about_;  // their lengths in what()
  Code code_;
};

// Sets the handler of a library that was compiled without exceptions (-fno-exceptions): where it would throw an Error,
// it calls the handler with the code and what(), and aborts the program if the handler returns. By default there is
// none. Returns the previous handler. A library compiled with exceptions never calls it.
using FailureHandler = void (*)(Code, const char* sentence);
ROTARY_API FailureHandler on_failure(FailureHandler) noexcept;

}  // namespace rotary
