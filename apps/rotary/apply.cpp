// rotary apply: rotates tensors of a file.
#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/shared/command.h"
#include "apps/shared/tensors.h"
#include "apps/shared/text.h"
#include "apps/shared/usage_error.h"
#include "commands.h"
#include "files/tensors/formats.h"
#include "rotary/reference.h"
#include "rotary/targets.h"
#include "source.h"
#include "tables.h"

namespace rotary::cli {

namespace {

struct Options {
  TableRequest request;
  std::string input;
  std::string output;
  std::vector<std::string> tensors;
  std::string layout;
  bool backward = false;
  bool each_step = false;
  Machine machine;
};

void check_usage(const Options& options) {
  const TableRequest& request = options.request;
  const Source& source = request.source;
  const bool described = !source.config.empty() || source.base || !source.inv_freq.empty() || !request.cos.empty();
  if (!described && !options.tensors.empty()) {
    throw UsageError(
        "say which rope: CONFIG (before --tensor, which takes all words that follow), --base, --inv-freq or --cos");
  }
  check_request(request);
  const files::Format format = files::format_to_read(options.input);
  if (format == files::Format::npy && !options.tensors.empty())
    throw UsageError("an .npy holds one tensor: leave --tensor away");
  if (options.each_step && (!options.machine.target.empty() || options.machine.threads.value_or(1) != 1)) {
    throw UsageError("--each-step runs the scalar reference on one thread: no --target, no --threads");
  }
  if (format != files::format_to_write(options.output)) {
    throw Error(Code::FORMAT, "[apply] input and output must be of one format but got '" + options.input + "' and '" +
                                  options.output + "'");
  }
}

// The tensors to rotate: those that --tensor names, else q and k.
std::vector<Tensor*> choose_tensors(TensorFile& file, const Options& options) {
  if (is_npy(options.input)) return {&file.tensors.front()};
  const bool named = !options.tensors.empty();
  const std::vector<std::string> wanted = named ? options.tensors : std::vector<std::string>{"q", "k"};
  std::string present;
  for (const Tensor& tensor : file.tensors) present += (present.empty() ? "" : ", ") + tensor.name;
  if (present.empty()) present = "none";
  std::vector<Tensor*> chosen;
  for (const std::string& name : wanted) {
    const auto found = std::find_if(file.tensors.begin(), file.tensors.end(),
                                    [&name](const Tensor& tensor) { return tensor.name == name; });
    if (found == file.tensors.end()) {
      if (named)
        throw Error(Code::TENSOR,
                    "[apply] --tensor must name a tensor of the file but got '" + name + "'; it holds: " + present);
    } else if (std::find(chosen.begin(), chosen.end(), &*found) == chosen.end()) {
      chosen.push_back(&*found);
    }
  }
  if (chosen.empty())
    throw Error(Code::TENSOR, "[apply] the file has neither q nor k (name yours with --tensor); it holds: " + present);
  return chosen;
}

// The rotated block of x: from element `first` on, or all of a tensor that holds only the block.
Heads rotated_block(const Heads& x, const Tensor& tensor, const TableSource& tables) {
  const int head_dim = x.layout.head_dim;
  const bool bare = tables.first() > 0 && head_dim == tables.rotary_dim();
  if (head_dim != tables.head_dim() && !bare) {
    std::string rule = "[apply] head_dim must be " + std::to_string(tables.head_dim());
    if (tables.first() > 0) rule += ", or " + std::to_string(tables.rotary_dim()) + " for the bare rotary block,";
    throw Error(Code::SHAPE, rule + " but " + label(tensor) + " is " + shape_text(tensor.shape));
  }
  const int first = bare ? 0 : tables.first();
  return slice(x, first, head_dim - first);
}

void rotate_block(const Heads& block, Tensor& tensor, const Table& table, const Options& options,
                  const Executor& pool) {
  const Direction direction = options.backward ? Direction::backward : Direction::forward;
  if (options.each_step) {
    const std::vector<std::byte> before = tensor.data;
    const auto offset = static_cast<const std::byte*>(block.data) - tensor.data.data();
    const ConstHeads x(before.data() + offset, block.dtype, block.layout);
    reference::rotate(x, block, table, direction, reference::Arithmetic::each_step);
  } else {
    rotate(block, table, {direction, pool});
  }
}

void apply_to(Tensor& tensor, const Options& options, TableSource& tables, const Executor& pool) {
  const Heads x = heads_of(tensor, options.layout);
  const Heads block = rotated_block(x, tensor, tables);
  if (tensor.elements() == 0) return;
  const Table& table = tables.table(x.layout.tokens, label(tensor), pool);
  try {
    rotate_block(block, tensor, table, options, pool);
  } catch (const Error& error) {
    throw Error(error.code(), label(tensor) + ": " + error.what());
  }
}

void report(const Options& options, const TensorFile& file, const std::vector<Tensor*>& rotated,
            const TableSource& tables) {
  for (const std::string& line : tables.notes()) std::cout << printable(line) << '\n';
  for (const Tensor& tensor : file.tensors) {
    const bool is_rotated = std::find(rotated.begin(), rotated.end(), &tensor) != rotated.end();
    std::cout << (is_rotated ? options.backward ? "rotated backward  " : "rotated  " : "copied   ")
              << (tensor.name.empty() ? "" : printable(tensor.name) + "  ") << rotary::name(tensor.type) << ' '
              << shape_text(tensor.shape) << '\n';
  }
  std::cout << "wrote " << printable(options.output) << '\n';
}

void run(const Options& options) {
  check_usage(options);
  check_output(options.output);
  if (!options.machine.target.empty()) use_target(options.machine.target);
  TensorFile file = load(options.input);
  const std::vector<Tensor*> chosen = choose_tensors(file, options);
  int head_dim = 0;
  std::int64_t tokens = 0;
  for (Tensor* tensor : chosen) {
    const Layout layout = heads_of(*tensor, options.layout).layout;
    head_dim = std::max(head_dim, layout.head_dim);
    tokens = std::max(tokens, layout.tokens);
  }
  TableSource tables(options.request, head_dim, tokens);
  const ThreadPool pool(options.machine.threads.value_or(1));
  for (Tensor* tensor : chosen) apply_to(*tensor, options, tables, pool);
  save(options.output, file);
  report(options, file, chosen, tables);
}

constexpr const char* footer =
    "The rope comes from CONFIG; or from --base or --inv-freq, with --pairing; or from --cos and --sin (f32 [rows,\n"
    "pairs]), with --pairing.\n"
    "Tensors are f32, f16 or bf16 and may differ in dtype and heads. Everything else in the file is copied bit for "
    "bit;\n"
    "the output appears whole or not at all, and may be the input.\n"
    "  rotary apply config.json --input qk.safetensors --output rotated.safetensors\n"
    "  rotary apply config.json --input qk.safetensors --output r.safetensors \\\n"
    "      --tensor query key --layout bhtd --positions 100:116\n"
    "  rotary apply --base 10000 --pairing interleaved --input q.npy --output rotated.npy\n"
    "  rotary apply --cos cos.npy --sin sin.npy --pairing half --input q.npy --output r.npy";

}  // namespace

void add_apply(CLI::App& app) {
  auto options = std::make_shared<Options>();
  Command command(app, "apply", "Rotate the q and k of a file");
  add_request_options(command, options->request);
  command.option("--input", options->input, "the tensors: a safetensors file, or one .npy")
      .type_name("FILE")
      .required();
  command.option("--output", options->output, "the file to write, of the same format").type_name("FILE").required();
  command.option("--tensor", options->tensors, "names of the tensors to rotate (default: q and k, whichever is there)")
      .type_name("NAME");
  command
      .option("--layout", options->layout,
              "order of the dimensions: b batch, t tokens, h heads, d head_dim\n"
              "(default: bthd, or thd for three dimensions)")
      .one_of({"bthd", "bhtd", "tbhd", "thd"})
      .type_name("WORD");
  command.flag("--backward", options->backward, "the gradient: the transposed rotation");
  command.flag("--each-step", options->each_step,
               "round after every operation, as a framework running in the tensor's dtype does (slow)");
  add_machine_options(command, options->machine);
  command.footer(footer);
  command.can_be_quiet();
  command.runs([options] { run(*options); });
}

}  // namespace rotary::cli
