// The sheet of models in use: the one built in, or a file in its place.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "diffusers.h"
#include "table.h"
#include "text/paths.h"

namespace rotary::embedded {
std::string_view models() noexcept;  // files/models/models.json
}

namespace rotary::files {
namespace {

using Names = std::vector<std::string_view>;

[[noreturn]] void refuse_sheet(const std::string& place, const std::string& rule, const Json& got) {
  fail(Code::FORMAT, "models", place, " must ", rule, " but got ", shown(got));
}

// ---- from any JSON to the layout of a ModelTable ----

void check_name(const std::string& place, const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           is_listed({&c, 1}, "_ - + . /");
  });
  if (!plain || name.empty() || name.size() > 100)
    refuse_sheet(place, "be of 1 to 100 letters, digits and _-+./", name);
}

std::string laid_out(const OrderedJson& sheet) {
  std::string text;
  for (const auto& [section, value] : sheet.items()) {
    check_name("the name of a section", section);
    text += (text.empty() ? "{\n\"" : ",\n\"") + section + "\": ";
    if (!value.is_object()) {
      text += value.dump();
      continue;
    }
    std::string rows;
    for (const auto& [name, row] : value.items()) {
      check_name("a name in " + section, name);
      rows += (rows.empty() ? "{\n  \"" : ",\n  \"") + name + "\": " + row.dump();
    }
    text += rows.empty() ? "{\n}" : rows + "\n}";
  }
  return text + "\n}\n";
}

// The rows of a section, each in the place of the row of its name, and new ones behind.
OrderedJson laid_over(const OrderedJson& under, const OrderedJson& rows) {
  const auto known = members_of(under), own = members_of(rows);
  OrderedJson::object_t all;
  for (const auto& [name, row] : under.items()) all.emplace_back(name, own.contains(name) ? *own.at(name) : row);
  for (const auto& [name, row] : rows.items())
    if (!known.contains(name)) all.emplace_back(name, row);
  return all;
}

// The rows of a file that extends a sheet, laid over that sheet's.
OrderedJson extended(const ModelTable& base, const OrderedJson& own) {
  OrderedJson sheet = OrderedJson::parse(base.text());
  for (const auto& [section, value] : own.items()) {
    OrderedJson& under = sheet[section];
    if (value.is_object() && under.is_object()) {
      under = laid_over(under, value);
    } else if (value.is_array() && under.is_array()) {
      under.insert(under.begin(), value.begin(), value.end());
    } else {
      under = section == "data" ? OrderedJson(under.get<std::string>() + "+" + value.get<std::string>()) : value;
    }
  }
  sheet.erase("extends");
  return sheet;
}

// ---- references between rows ----

void check_known(const std::string& place, std::string_view type) {
  if (!is_known_type(type) && find_architecture(type) == nullptr)
    refuse_sheet(place, "name types that have a row", type);
}

// Refuses sub-configs that hold each other, and many more of them than there are.
void check_parts(std::string_view type, int levels, int& parts) {
  for (const Child& child : children_of(type)) {
    const std::string place = "children." + std::string(type) + "." + std::string(child.part);
    if (levels == 0 || ++parts > 10000)
      refuse_sheet(place, "not lie in more than 8 others, nor in itself,", child.type);
    check_known(place, child.type);
    check_parts(child.type, levels - 1, parts);
  }
}

void check_references(const ModelTable& sheet) {
  std::set<std::string_view> once;
  for (const Names& types : {model_types(), refused_types(), types_without_rope()}) {
    for (const std::string_view type : types)
      if (!once.insert(type).second) refuse_sheet("the file", "have a type once", type);
  }
  for (const char* type :
       {"gpt_oss", "llama", "llama4_vision_model", "mistral", "pixtral", "voxtral_realtime_encoder"}) {
    if (find_family(type) == nullptr)
      refuse_sheet("models." + std::string(type), "be a row, which params.json needs,", {});
  }
  if (find_architecture("deepseek4") == nullptr)
    refuse_sheet("architectures.deepseek4", "be a row, which a draft for it needs,", {});
  int parts = 0;
  for (const std::string_view type : types_with_children()) check_parts(type, 8, parts);
  for (const Misnamed& row : misnamed()) {
    if (find_family(row.family) == nullptr && !known_without_rope(row.family))
      refuse_sheet("misnamed", "name families that have a row", row.family);
  }
  for (const std::string_view name : *sheet.find<Names>("our_names")) check_known("our_names", name);
  for (const std::string_view list : sheet.names("counted")) {
    if (!is_listed(list, "seen from_one every"))
      refuse_sheet("counted", "have the lists seen, from_one and every", list);
    for (const std::string_view type : *sheet.find<Names>("counted", list)) check_known("counted", type);
  }
  for (const std::string_view type : sheet.names("positions")) {
    const std::string_view inside = find_positions(type)->inside;
    check_known("positions", type);
    if (!inside.empty() && find_child(type, inside) == nullptr)
      refuse_sheet("positions." + std::string(type) + ".inside", "be a sub-config of children", inside);
  }
  for (const QueryRow& row : query_rows())
    if (!row.type.empty()) check_known("query_scales", row.type);
  for (const std::string_view type : diffusers_types()) check_known("diffusers", type.substr(0, type.find('/')));
}

// ---- the sheets ----

std::filesystem::path& file_beside() {
  static std::filesystem::path path;
  return path;
}
std::atomic<const ModelTable*> chosen = nullptr;
thread_local const ModelTable* of_reading = nullptr;

const ModelTable& embedded_sheet() {
  static const ModelTable all{std::string(embedded::models())};
  return all;
}

// Never freed: a reading that goes on may hold its rows.
const ModelTable& keep(std::unique_ptr<ModelTable> sheet) {
  static std::mutex mutex;
  static auto& kept = *new std::vector<std::unique_ptr<ModelTable>>;
  const std::lock_guard lock(mutex);
  return *kept.emplace_back(std::move(sheet));
}

const ModelTable& load_sheet(const std::filesystem::path& file, const ModelTable& base) {
  try {
    const std::string text = json_file_text("models", file);
    if (text == embedded::models()) return embedded_sheet();
    std::unique_ptr<ModelTable> sheet = read_sheet(text, base);
    sheet->file = file;
    return keep(std::move(sheet));
  } catch (const Error& error) {
    if (error.code() == Code::FILE) throw;
    const Code code = error.code() == Code::JSON ? Code::JSON : Code::FORMAT;
    throw Error(code, "models", error.rule(), error.about()).about(path_text(file));
  }
}

// The sheet of the file beside the program or the package, where there is one, else the embedded one.
const ModelTable& built_in() {
  std::error_code ignored;
  static const ModelTable& sheet = !file_beside().empty() && std::filesystem::exists(file_beside(), ignored)
                                       ? load_sheet(file_beside(), embedded_sheet())
                                       : embedded_sheet();
  return sheet;
}

const ModelTable& first_sheet() {
  const char* named = std::getenv("ROTARY_MODELS");
  static const ModelTable* const sheet =
      named != nullptr && *named != '\0' ? &load_sheet(path_of(named), built_in()) : &built_in();
  return *sheet;
}

}  // namespace

std::unique_ptr<ModelTable> read_sheet(const std::string& text, const ModelTable& base) {
  parse_json(text);  // checks it
  OrderedJson json;
  try {
    json = parse_in_order(text);
  } catch (const Json::exception&) {
    fail(Code::JSON, "models", "the numbers must be finite but got NaN or Infinity");
  }
  if (!json.is_object()) refuse_sheet("the file", "be an object", json);
  const Json schema = json.value("schema", OrderedJson()), data = json.value("data", OrderedJson());
  if (schema.dump() != "1") refuse_sheet("schema", "be 1, which this version of rotary reads,", schema);
  if (!data.is_string()) refuse_sheet("data", "be a version, as \"2026.11.2\",", data);
  check_name("data", data);
  if (const auto extends = json.find("extends"); extends != json.end()) {
    if (*extends != true) refuse_sheet("extends", "be true or absent", *extends);
    json = extended(base, json);
  }
  auto sheet = std::make_unique<ModelTable>(laid_out(json));
  const SheetOfReading reading(sheet.get());
  sheet->read_all();
  check_references(*sheet);
  known_models();  // reads every type by its defaults
  return sheet;
}

const ModelTable& table() {
  if (of_reading != nullptr) return *of_reading;
  const ModelTable* sheet = chosen.load(std::memory_order_acquire);
  return sheet != nullptr ? *sheet : first_sheet();
}

SheetOfReading::SheetOfReading(const ModelTable* given) : before_(of_reading) {
  of_reading = given != nullptr ? given : &table();
}
SheetOfReading::~SheetOfReading() { of_reading = before_; }

}  // namespace rotary::files

namespace rotary {

ModelData model_data() {
  const files::ModelTable& sheet = files::table();
  return {std::string(*sheet.find<std::string_view>("data")), sheet.file};
}

void use_models(const std::filesystem::path& file) {
  files::chosen.store(&files::load_sheet(file, files::built_in()), std::memory_order_release);
}
void use_own_models() { files::chosen.store(nullptr, std::memory_order_release); }
void set_models_beside(const std::filesystem::path& file) { files::file_beside() = file; }

}  // namespace rotary
