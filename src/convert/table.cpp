#include <algorithm>
#include <array>
#include <cstring>

#include "files/tensors/formats.h"
#include "steps.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::conversion {
namespace {

constexpr std::array<const char*, 4> form_names = {"pairs", "doubled", "joined", "complex"};
using Form = TableForm;

// Names of a table's tensors, by their last word.
constexpr std::string_view cos_names = "cos cos_cached", sin_names = "sin sin_cached",
                           joined_names = "cos_sin cos_sin_cache", complex_names = "freqs_cis";

bool is_any(const std::string& name, std::string_view words) {
  return is_listed(std::string_view(name).substr(name.find_last_of("./") + 1), words);
}

template <class T>
bool any_is(const std::vector<T>& tensors, std::string_view words) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [words](const TensorInfo& one) { return is_any(one.name, words); });
}

struct Table {
  TableOrder order;
  std::vector<Tensor> tensors;  // one, or cos and sin
  std::vector<Tensor> rest;     // the file's other tensors
};

std::size_t element_bytes(const Tensor& tensor) {
  const unsigned bits = tensor.type == ElementType::c64 ? 32 : bits_of(tensor.type);
  check_whole_bytes(tensor, bits, "a table");
  return bits / 8;
}

// Whether every value of a row stands twice: once more half a row behind, or beside itself.
bool repeats(const Tensor& tensor, Pairing pairing) {
  const std::size_t bytes = element_bytes(tensor), width = static_cast<std::size_t>(tensor.shape.back());
  const bool half = pairing == Pairing::half;
  for (std::size_t row = 0; row < tensor.data.size(); row += width * bytes) {
    for (std::size_t j = 0; j < width / 2; ++j) {
      const std::byte* first = &tensor.data[row + (half ? j : 2 * j) * bytes];
      if (std::memcmp(first, first + (half ? width / 2 : 1) * bytes, bytes) != 0) return false;
    }
  }
  return true;
}

void check_shape(const Tensor& tensor, bool even) {
  const bool fits = !tensor.shape.empty() && tensor.elements() > 0 && (!even || tensor.shape.back() % 2 == 0);
  if (fits) return;
  fail(Code::SHAPE, operation, "a table must be [..., ", even ? "2 pairs" : "pairs", "] but tensor ",
       files::in_quotes(tensor.name), " has shape ", detail::shape_text(tensor.shape));
}

// form: the metadata's word, which tells pairs from doubled; "": none.
TableOrder order_of_two(const Tensor& cos, const Tensor& sin, const std::string& form) {
  if (cos.shape != sin.shape || cos.type != sin.type) {
    fail(Code::SHAPE, operation, "cos and sin must have one shape and type but got ", detail::shape_text(cos.shape),
         " and ", detail::shape_text(sin.shape));
  }
  check_shape(cos, false);
  if (cos.shape.back() % 2 != 0) return {Form::pairs, Pairing::unset};
  const bool half = repeats(cos, Pairing::half) && repeats(sin, Pairing::half);
  const bool interleaved = repeats(cos, Pairing::interleaved) && repeats(sin, Pairing::interleaved);
  if ((!half && !interleaved) || form == "pairs") return {Form::pairs, Pairing::unset};
  if (half && interleaved && form != "doubled") {
    fail(Code::TENSOR, operation,
         "the rows of a table must differ from pair to pair, to tell whether each value stands twice, but ",
         files::in_quotes(cos.name), " has one value in each row");
  }
  return {Form::doubled, half && interleaved ? Pairing::unset : half ? Pairing::half : Pairing::interleaved};
}

TableOrder order_of_one(const Tensor& tensor) {
  const bool pairs_last = tensor.shape.size() >= 3 && tensor.shape.back() == 2;
  const bool is_c64 = tensor.type == ElementType::c64;
  const bool complex = is_c64 || is_any(tensor.name, complex_names) || (tensor.name.empty() && pairs_last);
  if (complex && !is_c64 && !pairs_last) {
    fail(Code::SHAPE, operation, "freqs_cis must be C64, or [..., pairs, 2], but has shape ",
         detail::shape_text(tensor.shape));
  }
  check_shape(tensor, !complex);
  return {complex ? Form::complex : Form::joined, Pairing::unset};
}

Table read_table(const std::filesystem::path& input, const std::map<std::string, std::string>& metadata) {
  Table table{.order = {}, .tensors = {}, .rest = read_tensors(input)};
  const auto take = [&table](std::string_view names) {
    const auto found = std::find_if(table.rest.begin(), table.rest.end(), [names](const Tensor& tensor) {
      return names.empty() || is_any(tensor.name, names);
    });
    if (found == table.rest.end()) return false;
    table.tensors.push_back(std::move(*found));
    table.rest.erase(found);
    return true;
  };
  const bool has_cos = any_is(table.rest, cos_names), has_sin = any_is(table.rest, sin_names);
  const bool alone = table.rest.size() == 1 && !has_cos && !has_sin;
  if (has_cos && has_sin) {
    take(cos_names);
    take(sin_names);
    const auto said = metadata.find("form");
    table.order = order_of_two(table.tensors[0], table.tensors[1], said == metadata.end() ? "" : said->second);
  } else if (take(joined_names) || take(complex_names) || (alone && take(""))) {
    table.order = order_of_one(table.tensors[0]);
  } else {
    fail(Code::TENSOR, operation,
         "a table must be cos and sin, cos_sin, cos_sin_cache or freqs_cis but the file holds none of them");
  }
  return table;
}

// The elements of a row: where cos and sin of a pair stand.
struct RowOrder {
  std::size_t pairs = 0;
  TableOrder order;

  bool is_split() const { return order.form == Form::pairs || order.form == Form::doubled; }  // cos and sin apart
  std::size_t tensor(bool sin) const { return sin && is_split() ? 1 : 0; }
  std::size_t width() const { return order.form == Form::pairs ? pairs : 2 * pairs; }
  std::size_t copies() const { return order.form == Form::doubled ? 2 : 1; }
  std::size_t at(bool sin, std::size_t pair, std::size_t copy) const {
    if (order.form == Form::complex) return 2 * pair + (sin ? 1 : 0);
    if (order.form == Form::joined) return pair + (sin ? pairs : 0);
    return order.pairing == Pairing::interleaved ? 2 * pair + copy : pair + copy * pairs;
  }
};

// Tensors of this order, without values yet; leading: the dimensions in front of a row.
std::vector<Tensor> empty_tensors(const Table& from, const RowOrder& to, std::vector<std::int64_t> leading) {
  const Tensor& old = from.tensors.front();
  const bool complex = to.order.form == Form::complex;
  std::vector<std::string> names = {complex ? "freqs_cis" : "cos_sin"};
  if (to.is_split()) names = {"cos", "sin"};
  leading.push_back(static_cast<std::int64_t>(complex ? to.pairs : to.width()));
  if (complex) leading.push_back(2);
  std::vector<Tensor> tensors(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    tensors[i].name = from.order.form == to.order.form ? from.tensors[i].name : names[i];
    tensors[i].type = old.type == ElementType::c64 ? ElementType::f32 : old.type;
    tensors[i].shape = leading;
    tensors[i].bytes = static_cast<std::uint64_t>(tensors[i].elements()) * element_bytes(old);
    tensors[i].data.resize(tensors[i].bytes);
  }
  return tensors;
}

// The same values in another order.
std::vector<Tensor> in_order(const Table& table, TableOrder to) {
  const Tensor& first = table.tensors.front();
  std::vector<std::int64_t> leading = first.shape;
  const bool complex = table.order.form == Form::complex;
  if (complex && first.type != ElementType::c64) leading.pop_back();
  const auto last = static_cast<std::size_t>(leading.back());
  leading.pop_back();
  const std::size_t pairs = complex || table.order.form == Form::pairs ? last : last / 2;
  const RowOrder source{pairs, table.order}, target{pairs, to};
  std::vector<Tensor> result = empty_tensors(table, target, leading);
  const std::size_t bytes = element_bytes(first), rows = first.data.size() / (source.width() * bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    for (const bool sin : {false, true}) {
      const std::byte* in = &table.tensors[source.tensor(sin)].data[row * source.width() * bytes];
      std::byte* out = &result[target.tensor(sin)].data[row * target.width() * bytes];
      for (std::size_t pair = 0; pair < pairs; ++pair) {
        for (std::size_t copy = 0; copy < target.copies(); ++copy)
          std::memcpy(out + target.at(sin, pair, copy) * bytes, in + source.at(sin, pair, 0) * bytes, bytes);
      }
    }
  }
  return result;
}

std::string words_of(const TableOrder& order) {
  const bool ordered = order.form == Form::doubled && order.pairing != Pairing::unset;
  return std::string(rotary::name(order.form)) + (ordered ? std::string(" (") + rotary::name(order.pairing) + ")" : "");
}

// The order to write: the form asked for, or that of the input, in the order of `to`.
TableOrder wanted_order(const ConvertRequest& request, const TableOrder& before) {
  TableOrder wanted{request.form.value_or(before.form), request.to.value_or(before.pairing)};
  const bool doubled = wanted.form == Form::doubled;
  if (!doubled) wanted.pairing = Pairing::unset;
  if (doubled && wanted.pairing == Pairing::unset)
    fail(Code::PAIRING, operation, "the pairing must be given for a table that repeats values in its order but is not");
  if (wanted.form == before.form && wanted.pairing == before.pairing) {
    fail(Code::PAIRING, operation, "a table must be in another form but is ", words_of(before), " already",
         (doubled ? "" : ", which is the same for both pairings"));
  }
  return wanted;
}

}  // namespace

bool has_table(const std::vector<TensorInfo>& tensors) {
  return (any_is(tensors, cos_names) && any_is(tensors, sin_names)) || any_is(tensors, joined_names) ||
         any_is(tensors, complex_names);
}

ConvertResult convert_table(const ConvertRequest& request) {
  std::map<std::string, std::string> metadata = tensor_metadata(request.input);
  const Table table = read_table(request.input, metadata);
  ConvertResult result{.kind = ConvertKind::table, .dry_run = request.dry_run, .output = request.output};
  result.table_from = table.order;
  result.table_to = wanted_order(request, table.order);
  result.all_tensors = table.tensors.size() + table.rest.size();
  std::vector<Tensor> tensors = in_order(table, result.table_to);
  for (const Tensor& tensor : tensors) result.tensors.push_back({.info = tensor});
  if (request.dry_run) return result;
  tensors.insert(tensors.end(), table.rest.begin(), table.rest.end());
  if (files::format_to_write(request.output) == files::Format::npy) {
    metadata.clear();
  } else {
    metadata["form"] = rotary::name(result.table_to.form);
    if (result.table_to.form == Form::doubled) metadata["pairing"] = rotary::name(result.table_to.pairing);
  }
  write_tensors(request.output, tensors, metadata);
  return result;
}

}  // namespace rotary::conversion

namespace rotary {

const char* name(TableForm form) noexcept { return conversion::form_names[static_cast<std::size_t>(form)]; }

TableForm parse_table_form(std::string_view word) {
  const auto found = std::find(conversion::form_names.begin(), conversion::form_names.end(), word);
  if (found == conversion::form_names.end()) {
    fail(Code::VALUE, conversion::operation, "a form must be pairs, doubled, joined or complex but got ",
         files::in_quotes(word));
  }
  return static_cast<TableForm>(found - conversion::form_names.begin());
}

TableOrder table_order(const std::filesystem::path& path) {
  return conversion::read_table(path, tensor_metadata(path)).order;
}

}  // namespace rotary
