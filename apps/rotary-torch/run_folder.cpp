#include "run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <system_error>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/text.h"
#include "values/number_text.h"

namespace rotary::cli {

namespace {

namespace fs = std::filesystem;

constexpr rotary_torch::Refusal refuse{"train"};

// The lines of a log up to a step. An incomplete last line, cut off by a crash, is dropped.
std::string lines_up_to(const fs::path& path, std::int64_t last_step) {
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const std::string text = rotary_torch::read_text(path);
  std::string kept;
  std::size_t number = 1;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++number) {
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    try {
      const files::Json json = files::parse_json(line);
      if (json.at("step").get<std::int64_t>() <= last_step) kept.append(line).append("\n");
    } catch (const std::exception&) {
      refuse(Code::FORMAT, path.string(), " line ", number, ": must be {\"step\": N, ...} but got ",
             files::in_quotes(line));
    }
  }
  return kept;
}

}  // namespace

void RunFolder::check_new() const {
  std::error_code error;
  for (const char* name : {"checkpoint.safetensors", "model.safetensors", "model.safetensors.index.json", "config.json",
                           "vocab.json", "loss.jsonl", "loss.svg"}) {
    if (fs::exists(fs::symlink_status(folder / name, error))) {
      refuse(Code::FILE, folder.string(), ": must be a new or empty folder but holds ", name,
             ": go on with that run by --resume, or name another --output");
    }
  }
}

void RunFolder::check_begun() const {
  std::error_code error;
  if (!fs::exists(checkpoint(), error)) {
    refuse(Code::FILE, folder.string(),
           ": --resume needs the checkpoint.safetensors of a run but there is none: begin without it");
  }
}

FolderLock::FolderLock(const RunFolder& run) {
  std::error_code error;
  fs::create_directories(run.folder, error);
  if (error) refuse(Code::FILE, run.folder.string(), ": the folder cannot be made: ", error.message());
  descriptor_ = ::open(run.folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // On a file system without locks there is no protection.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  refuse(Code::FILE, run.folder.string(),
         ": another process is training into it: wait for it, or name another --output");
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

LossWriter::LossWriter(fs::path path, std::int64_t last_step)
    : path_(std::move(path)), lines_(lines_up_to(path_, last_step)) {}

LossWriter::~LossWriter() {
  if (!writes_ || !waiting_) return;
  try {
    flush();
  } catch (const Error&) {  // must not throw; a resumed run begins at the checkpoint in any case
  }
}

void LossWriter::add(std::int64_t step, const char* key, const std::string& loss) {
  lines_ += "{\"step\": " + std::to_string(step) + ", \"" + key + "\": " + loss + "}\n";
  waiting_ = true;
}

void LossWriter::train(std::int64_t step, double loss) {
  add(step, "train_loss", detail::shortest(static_cast<float>(loss)));
}

void LossWriter::validation(std::int64_t step, double loss) { add(step, "validation_loss", detail::shortest(loss)); }

void LossWriter::flush() {
  writes_ = true;
  waiting_ = false;
  files::write_whole("train", path_, lines_);
}

}  // namespace rotary::cli
