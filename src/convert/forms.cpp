#include "forms.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "files/text/io.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::convert {
namespace {

constexpr const char* operation = "convert";
constexpr std::array<const char*, 4> form_names = {"pairs", "doubled", "joined", "complex"};

std::string last_word(const std::string& name) { return name.substr(name.find_last_of("./") + 1); }

bool is_any(const std::string& name, std::initializer_list<std::string_view> words) {
  const std::string word = last_word(name);
  return std::find(words.begin(), words.end(), word) != words.end();
}
bool is_cos(const std::string& name) { return is_any(name, {"cos", "cos_cached"}); }
bool is_sin(const std::string& name) { return is_any(name, {"sin", "sin_cached"}); }
bool is_joined(const std::string& name) { return is_any(name, {"cos_sin", "cos_sin_cache"}); }
bool is_complex(const std::string& name) { return is_any(name, {"freqs_cis"}); }

std::size_t element_bytes(const Tensor& tensor) {
  const unsigned bits = tensor.type == ElementType::c64 ? 32 : bits_of(tensor.type);
  if (bits % 8 != 0)
    fail(Code::DTYPE, operation, std::string("a table must have elements of whole bytes but is ") + name(tensor.type));
  return bits / 8;
}

bool same(const Tensor& tensor, std::size_t a, std::size_t b) {
  const std::size_t bytes = element_bytes(tensor);
  return std::memcmp(&tensor.data[a * bytes], &tensor.data[b * bytes], bytes) == 0;
}

// Whether every value of a row stands twice: once more half a row behind, or beside itself.
bool repeats(const Tensor& tensor, Pairing pairing) {
  const auto width = static_cast<std::size_t>(tensor.shape.back());
  const auto rows = static_cast<std::size_t>(tensor.elements()) / width;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t j = 0; j < width / 2; ++j) {
      const std::size_t first = row * width + (pairing == Pairing::half ? j : 2 * j);
      if (!same(tensor, first, first + (pairing == Pairing::half ? width / 2 : 1))) return false;
    }
  }
  return true;
}

void check(const Tensor& tensor, bool even) {
  const bool fits = !tensor.shape.empty() && tensor.elements() > 0 && (!even || tensor.shape.back() % 2 == 0);
  if (fits) return;
  fail(Code::SHAPE, operation,
       "a table must be [..., " + std::string(even ? "2 pairs" : "pairs") + "] but tensor " +
           files::in_quotes(tensor.name) + " has shape " + detail::shape_text(tensor.shape));
}

TableForm form_of_two(const Tensor& cos, const Tensor& sin, const std::string& form) {
  if (cos.shape != sin.shape || cos.type != sin.type) {
    fail(Code::SHAPE, operation,
         "cos and sin must have one shape and type but got " + detail::shape_text(cos.shape) + " and " +
             detail::shape_text(sin.shape));
  }
  check(cos, false);
  if (cos.shape.back() % 2 != 0) return {Form::pairs, Pairing::unset};
  const bool half = repeats(cos, Pairing::half) && repeats(sin, Pairing::half);
  const bool interleaved = repeats(cos, Pairing::interleaved) && repeats(sin, Pairing::interleaved);
  if ((!half && !interleaved) || form == "pairs") return {Form::pairs, Pairing::unset};
  if (half && interleaved && form != "doubled") {
    fail(Code::TENSOR, operation,
         "the rows of a table must differ from pair to pair, to tell whether each value stands twice, but " +
             files::in_quotes(cos.name) + " has one value in each row");
  }
  return {Form::doubled, half && interleaved ? Pairing::unset : half ? Pairing::half : Pairing::interleaved};
}

TableForm form_of_one(const Tensor& tensor) {
  const bool pairs_last = tensor.shape.size() >= 3 && tensor.shape.back() == 2;
  const bool complex =
      tensor.type == ElementType::c64 || is_complex(tensor.name) || (tensor.name.empty() && pairs_last);
  if (complex && tensor.type != ElementType::c64 && !pairs_last) {
    fail(Code::SHAPE, operation,
         "freqs_cis must be C64, or [..., pairs, 2], but has shape " + detail::shape_text(tensor.shape));
  }
  check(tensor, !complex);
  return {complex ? Form::complex : Form::joined, Pairing::unset};
}

// Where cos and sin of a pair stand in a row.
struct Places {
  std::size_t pairs = 0;
  TableForm form;

  std::size_t tensor(bool sin) const { return sin && (form.form == Form::pairs || form.form == Form::doubled) ? 1 : 0; }
  std::size_t width() const { return form.form == Form::pairs ? pairs : 2 * pairs; }
  std::size_t copies() const { return form.form == Form::doubled ? 2 : 1; }
  std::size_t at(bool sin, std::size_t pair, std::size_t copy) const {
    switch (form.form) {
      case Form::pairs:
        return pair;
      case Form::doubled:
        return form.pairing == Pairing::interleaved ? 2 * pair + copy : pair + copy * pairs;
      case Form::joined:
        return pair + (sin ? pairs : 0);
      case Form::complex:
        return 2 * pair + (sin ? 1 : 0);
    }
    return 0;
  }
};

std::vector<Tensor> empty_tensors(const TableTensors& from, const Places& to, std::vector<std::int64_t> leading) {
  const Tensor& old = from.tensors.front();
  std::vector<std::string> names = {"cos", "sin"};
  if (to.form.form == Form::joined) names = {"cos_sin"};
  if (to.form.form == Form::complex) names = {"freqs_cis"};
  if (from.form.form == to.form.form) {
    names.clear();
    for (const Tensor& tensor : from.tensors) names.push_back(tensor.name);
  }
  leading.push_back(static_cast<std::int64_t>(to.form.form == Form::complex ? to.pairs : to.width()));
  if (to.form.form == Form::complex) leading.push_back(2);
  std::vector<Tensor> tensors;
  for (const std::string& name : names) {
    Tensor& tensor = tensors.emplace_back();
    tensor.name = name;
    tensor.type = old.type == ElementType::c64 ? ElementType::f32 : old.type;
    tensor.shape = leading;
    tensor.bytes = static_cast<std::uint64_t>(tensor.elements()) * element_bytes(old);
    tensor.data.resize(tensor.bytes);
  }
  return tensors;
}

}  // namespace

const char* name(Form form) noexcept { return form_names[static_cast<std::size_t>(form)]; }

Form parse_form(const std::string& word) {
  const auto found = std::find(form_names.begin(), form_names.end(), word);
  if (found == form_names.end())
    fail(Code::VALUE, operation, "a form must be pairs, doubled, joined or complex but got " + files::in_quotes(word));
  return static_cast<Form>(found - form_names.begin());
}

bool has_table(const std::vector<TensorInfo>& tensors, bool npy) {
  if (npy) return false;
  const auto any = [&tensors](auto is) {
    return std::any_of(tensors.begin(), tensors.end(), [is](const TensorInfo& tensor) { return is(tensor.name); });
  };
  return (any(is_cos) && any(is_sin)) || any(is_joined) || any(is_complex);
}

TableTensors table_of(std::vector<Tensor> all, const std::string& form) {
  const auto take = [&all](auto is) -> std::optional<Tensor> {
    const auto found = std::find_if(all.begin(), all.end(), [is](const Tensor& tensor) { return is(tensor.name); });
    if (found == all.end()) return std::nullopt;
    std::optional<Tensor> taken(std::move(*found));
    all.erase(found);
    return taken;
  };
  std::optional<Tensor> cos = take(is_cos), sin = take(is_sin);
  TableTensors table;
  if (cos && sin) {
    table.form = form_of_two(*cos, *sin, form);
    table.tensors.push_back(std::move(*cos));
    table.tensors.push_back(std::move(*sin));
    table.rest = std::move(all);
    return table;
  }
  std::optional<Tensor> one = take(is_joined);
  if (!one) one = take(is_complex);
  if (!one && all.size() == 1) one = take([](const std::string&) { return true; });
  if (!one)
    fail(Code::TENSOR, operation,
         "a table must be cos and sin, cos_sin, cos_sin_cache or freqs_cis but the file holds none of them");
  table.form = form_of_one(*one);
  table.tensors.push_back(std::move(*one));
  table.rest = std::move(all);
  return table;
}

std::vector<Tensor> in_form(const TableTensors& table, TableForm to) {
  const Tensor& first = table.tensors.front();
  std::vector<std::int64_t> leading = first.shape;
  const bool complex = table.form.form == Form::complex;
  if (complex && first.type != ElementType::c64) leading.pop_back();
  const auto last = static_cast<std::size_t>(leading.back());
  leading.pop_back();
  const std::size_t pairs = complex || table.form.form == Form::pairs ? last : last / 2;
  const Places source{pairs, table.form}, target{pairs, to};
  std::size_t rows = 1;
  for (const std::int64_t extent : leading) rows *= static_cast<std::size_t>(extent);
  std::vector<Tensor> result = empty_tensors(table, target, leading);
  const std::size_t bytes = element_bytes(first);
  for (std::size_t row = 0; row < rows; ++row) {
    for (const bool sin : {false, true}) {
      const std::vector<std::byte>& in = table.tensors[source.tensor(sin)].data;
      std::vector<std::byte>& out = result[target.tensor(sin)].data;
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        for (std::size_t copy = 0; copy < target.copies(); ++copy) {
          std::memcpy(&out[(row * target.width() + target.at(sin, pair, copy)) * bytes],
                      &in[(row * source.width() + source.at(sin, pair, 0)) * bytes], bytes);
        }
      }
    }
  }
  return result;
}

}  // namespace rotary::convert
