// rotary positions: the position ids that a model makes of what its processor hands it, as an .npy.
#include <algorithm>
#include <array>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "commands.h"
#include "rotary/positions.h"
#include "rotary/tensors.h"
#include "shared/command.h"
#include "shared/program.h"
#include "shared/tensors.h"
#include "shared/text.h"
#include "subject/number_files.h"
#include "text/paths.h"

namespace rotary::cli {

namespace {

struct PositionsOptions {
  std::string config;
  std::filesystem::path output, delta;
  std::string tokens, mask, image_grid, video_grid, seconds, audio;  // names of files, which messages begin with
  std::string part;
  std::string cu_seqlens, against;
  std::optional<std::int64_t> length, ranks, rank;
  std::optional<Split> split;
  bool films_as_published = false;
};

// ---- the inputs of a model ----

// [batch, tokens] or [tokens]; of the same size as the file before.
void read_tokens(const std::string& file, const std::string& what, std::vector<std::int64_t>& values,
                 ModelInputs& inputs, std::vector<std::int64_t>& shape) {
  if (file.empty()) return;
  const Tensor tensor = read_npy(files::path_of(file));
  const std::vector<std::int64_t>& own = tensor.shape;
  values = tools::integers_of(tensor, file, what);
  if (own.empty() || own.size() > 2 || values.empty())
    fail(Code::SHAPE, "positions", file, ": ", what, " must be [batch, tokens] but is ", shape_text(own));
  if (!shape.empty() && shape != own) {
    fail(Code::SHAPE, "positions", file, ": ", what, " must have the shape of the tokens, ", shape_text(shape),
         ", but is ", shape_text(own));
  }
  shape = own;
  inputs.tokens = own.back();
  inputs.batch = std::ssize(values) / own.back();
}

std::vector<std::array<std::int64_t, 3>> read_grids(const std::string& file, const std::string& what) {
  std::vector<std::array<std::int64_t, 3>> grids;
  if (file.empty()) return grids;
  const Tensor tensor = read_npy(files::path_of(file));
  const std::vector<std::int64_t> values = tools::integers_of(tensor, file, what);
  if (tensor.shape.size() != 2 || tensor.shape[1] != 3) {
    fail(Code::SHAPE, "positions", file, ": ", what, " must be [images, 3], time, height and width, but is ",
         shape_text(tensor.shape));
  }
  for (std::size_t i = 0; i < values.size(); i += 3) grids.push_back({values[i], values[i + 1], values[i + 2]});
  return grids;
}

// The numbers of a list. numbers_of: tools::integers_of or reals_of.
template <class Numbers>
auto read_list(const std::string& file, const std::string& what, const Numbers& numbers_of) {
  const Tensor tensor = read_npy(files::path_of(file));
  auto numbers = numbers_of(tensor, file, what);
  if (tensor.shape.size() != 1)
    fail(Code::SHAPE, "positions", what, " must be a list but is ", shape_text(tensor.shape));
  return numbers;
}

PositionsRequest request_of(const PositionsOptions& options, std::vector<std::int64_t>& shape) {
  PositionsRequest request{.config = options.config, .split = options.split};
  request.ranks = options.ranks.value_or(1);
  request.rank = options.rank.value_or(0);
  if (!options.cu_seqlens.empty()) {
    const Tensor bounds = read_npy(files::path_of(options.cu_seqlens));
    request.cu_seqlens = tools::integers_of(bounds, options.cu_seqlens, "cu_seqlens");
    if (bounds.shape.size() != 1)
      fail(Code::SHAPE, "positions", "cu_seqlens must be [sequences + 1] but is ", shape_text(bounds.shape));
  }
  ModelInputs& inputs = request.inputs;
  inputs.part = options.part;
  read_tokens(options.tokens, "the token ids", inputs.ids, inputs, shape);
  read_tokens(options.mask, "the mask", inputs.mask, inputs, shape);
  if (options.length) inputs.tokens = *options.length;
  inputs.image_grids = read_grids(options.image_grid, "image grids");
  inputs.video_grids = read_grids(options.video_grid, "video grids");
  if (!options.seconds.empty())
    inputs.seconds_per_grid = read_list(options.seconds, "seconds per grid", tools::reals_of);
  if (!options.audio.empty()) inputs.audio_lengths = read_list(options.audio, "audio lengths", tools::integers_of);
  inputs.publisher = options.films_as_published;
  return request;
}

// ---- output ----

template <class T>
Tensor unnamed(const std::vector<T>& values, std::vector<std::int64_t> shape) {
  return tensor_of("", std::move(shape), std::span(values));
}

Tensor unnamed(const PositionSet& set) {
  return set.reals.empty() ? unnamed(set.integers, set.shape()) : unnamed(set.reals, set.shape());
}

Tensor deltas_of(const ModelPositions& made) {
  if (made.deltas.empty())
    fail(Code::POSITION, "positions",
         "--delta needs a model whose decoding adds an offset to positions, but this one adds none");
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(made.deltas.size())};
  if (!made.positions.reals.empty()) return unnamed(made.deltas, shape);
  return unnamed(std::vector<std::int64_t>(made.deltas.begin(), made.deltas.end()), shape);
}

using Json = nlohmann::ordered_json;

std::vector<Json> values_of(const PositionSet& set) {
  if (set.reals.empty()) return {set.integers.begin(), set.integers.end()};
  return {set.reals.begin(), set.reals.end()};
}

// A line for each axis and batch row: all ids, or the first and the last.
void print_ids(const PositionSet& set) {
  constexpr std::size_t shown = 12;
  const std::vector<Json> values = values_of(set);
  const auto tokens = static_cast<std::size_t>(set.tokens), rows = static_cast<std::size_t>(set.batch);
  std::cout << "positions " << shape_text(set.shape()) << '\n';
  for (std::size_t line = 0; tokens > 0 && line < values.size() / tokens; ++line) {
    std::cout << "  " << (set.axes > 1 ? "axis " + std::to_string(line / rows) + "  " : "")
              << (rows > 1 ? "row " + std::to_string(line % rows) + "  " : "");
    for (std::size_t i = 0; i < tokens; ++i) {
      const bool left_out = tokens > 2 * shown && i == shown;
      if (left_out) i = tokens - shown;
      std::cout << (left_out ? " ... " : i > 0 ? " " : "") << values[line * tokens + i].dump();
    }
    std::cout << '\n';
  }
}

// printed: the ids that no file takes.
void report(const std::vector<std::pair<std::filesystem::path, Tensor>>& files, const std::vector<std::string>& notes,
            const PositionSet* printed) {
  if (!asks_json() && printed != nullptr) print_ids(*printed);
  if (asks_json()) {
    Json list = Json::array();
    for (const auto& [path, tensor] : files)
      list.push_back({{"output", files::path_text(path)}, {"dtype", name(tensor.type)}, {"shape", tensor.shape}});
    Json json = {{"files", std::move(list)}, {"notes", notes}};
    if (printed != nullptr) json["positions"] = nested(values_of(*printed), printed->shape());
    return print_json(json_text(json));
  }
  for (const std::string& note : notes) std::cout << "note: " << printable(note) << '\n';
  for (const auto& [path, tensor] : files)
    std::cout << "wrote " << printable(files::path_text(path)) << ": " << name(tensor.type) << ' '
              << shape_text(tensor.shape) << '\n';
}

void compare(const PositionsRequest& request, const std::string& file) {
  const Tensor found = read_npy(files::path_of(file));
  const IdsCheck check = check_ids(request, tools::reals_of(found, file, "ids"), found.shape);
  if (asks_json()) {
    print_json(to_json(check));
  } else if (check.equal()) {
    std::cout << "equal: " << printable(file) << " holds the ids of " << check.tokens
              << " tokens as the model makes them\n";
  } else {
    std::cout << "differs: " << printable(file) << ", " << check.off << " of " << check.tokens << " tokens; first at "
              << (check.row > 0 ? "row " + std::to_string(check.row) + ", " : "") << "token " << check.token
              << (check.axis > 0 ? ", axis " + std::to_string(check.axis) : "") << ": " << significant(check.found, 10)
              << " instead of " << significant(check.asked, 10) << '\n'
              << check.sentence() << '\n';
  }
  if (!check.equal()) throw Failed{1};
}

void run(const PositionsOptions& options) {
  const auto place_of = [](const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  if (!options.delta.empty() && place_of(options.delta) == place_of(options.output))
    throw UsageError("--output and --delta must be two files");
  std::vector<std::pair<std::filesystem::path, Tensor>> files;
  for (const std::filesystem::path& path : {options.output, options.delta})
    if (!path.empty()) files.push_back({path, {}});
  for (const auto& [path, tensor] : files) {
    if (path.extension() != ".npy")
      fail(Code::FORMAT, "positions", "the output must end in .npy but got ",
           files::in_quotes(files::path_text(path)));
    check_output(path);
  }
  std::vector<std::int64_t> shape;  // that the ids or the mask have
  const PositionsRequest request = request_of(options, shape);
  if (!options.against.empty()) return compare(request, options.against);
  ModelPositions made = make_positions(request);
  if (made.positions.axes == 1 && shape.size() == 1) made.positions.batched = false;
  if (!options.output.empty()) files.front().second = unnamed(made.positions);
  if (!options.delta.empty()) files.back().second = deltas_of(made);
  for (const auto& [path, tensor] : files) save(path, {tensor}, {});
  report(files, made.notes, options.output.empty() ? &made.positions : nullptr);
}

void add_files(Command& command, PositionsOptions& options) {
  command.option("--tokens", options.tokens);
  command.option("--mask", options.mask);
  command.option("--image-grid", options.image_grid);
  command.option("--video-grid", options.video_grid);
  command.option("--seconds-per-grid", options.seconds);
  command.option("--audio-lengths", options.audio);
}

}  // namespace

void add_positions(Command& command) {
  auto options = std::make_shared<PositionsOptions>();
  command.option("CONFIG,--config", options->config);
  command.option("--output", options->output);
  command.option("--part", options->part);
  command.option("--length", options->length);
  add_files(command, *options);
  command.option("--delta", options->delta);
  command.option("--after-film", options->films_as_published,
                 [](const std::string& word) { return word == "publisher"; });
  command.option("--against", options->against);
  command.option("--cu-seqlens", options->cu_seqlens);
  command.option("--ranks", options->ranks);
  command.option("--rank", options->rank);
  command.option("--split", options->split, parse_split);
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
