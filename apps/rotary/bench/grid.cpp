// The properties of cells, and the cells that rotary bench measures: grids, combinations, a filter.
#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "apps/shared/usage_error.h"
#include "cell.h"

namespace rotary::cli::bench {

namespace {

using Json = nlohmann::ordered_json;

struct Property {
  const char* key;
  bool of_heads;  // null for a table
  Json (*value)(const Cell&);
  void (*set)(Cell&, const std::string& word);
};

// In the order of describe(), and of setting: what a later one sets prevails.
const Property properties[] = {
    {"op", false, [](const Cell& c) { return Json(name(c.op)); },
     [](Cell& c, const std::string& word) {
       const bool was_table = c.op == Op::table;
       c.op = parse_op(word);
       if (c.op == Op::table && !was_table) c.dtype = DType::f32;
     }},
    {"dtype", false, [](const Cell& c) { return Json(rotary::name(c.dtype)); },
     [](Cell& c, const std::string& word) { c.dtype = parse_dtype(word); }},
    {"pairing", true, [](const Cell& c) { return Json(rotary::name(c.pairing)); },
     [](Cell& c, const std::string& word) { c.pairing = parse_pairing(word); }},
    {"layout", true, [](const Cell& c) { return Json(c.layout); },
     [](Cell& c, const std::string& word) { c.layout = word; }},
    {"batch", true, [](const Cell& c) { return Json(c.batch); },
     [](Cell& c, const std::string& word) { c.batch = std::stoll(word); }},
    {"tokens", false, [](const Cell& c) { return Json(c.tokens); },
     [](Cell& c, const std::string& word) { c.tokens = std::stoll(word); }},
    {"heads", true, [](const Cell& c) { return Json(c.heads); },
     [](Cell& c, const std::string& word) { c.heads = std::stoll(word); }},
    {"kv_heads", true, [](const Cell& c) { return Json(c.kv_heads); },
     [](Cell& c, const std::string& word) { c.kv_heads = std::stoll(word); }},
    {"head_dim", false, [](const Cell& c) { return Json(c.head_dim); },
     [](Cell& c, const std::string& word) { c.head_dim = c.rotary_dim = std::stoi(word); }},
    {"rotary_dim", false, [](const Cell& c) { return Json(c.rotary_dim); },
     [](Cell& c, const std::string& word) { c.rotary_dim = std::stoi(word); }},
    {"in_place", true, [](const Cell& c) { return Json(c.in_place); },
     [](Cell& c, const std::string& word) { c.in_place = word == "true"; }},
    {"threads", false, [](const Cell& c) { return c.cuda ? Json() : Json(c.threads); },
     [](Cell& c, const std::string& word) { c.threads = static_cast<unsigned>(std::stoul(word)); }},
    {"target", false, [](const Cell& c) { return Json(c.target); },
     [](Cell& c, const std::string& word) { c.target = word; }},
    {"device", false, [](const Cell& c) { return Json(c.cuda ? "cuda" : "cpu"); },
     [](Cell& c, const std::string& word) { c.cuda = word == "cuda"; }}};

// Of a device only.
const Property device_properties[] = {
    {"table", true, [](const Cell& c) { return Json(c.with_table); },
     [](Cell& c, const std::string& word) { c.with_table = c.op == Op::table || word == "true"; }},
    {"cache", true, [](const Cell& c) { return appends(c.op) ? Json(c.f8 ? "f8" : "same") : Json(); },
     [](Cell& c, const std::string& word) { c.f8 = appends(c.op) && word == "f8"; }}};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// "KEY=VALUE"; of a word without "=" the value is "".
std::pair<std::string, std::string> key_and_value(const std::string& word) {
  const std::size_t end = std::min(word.find('='), word.size());
  return {word.substr(0, end), word.substr(std::min(end + 1, word.size()))};
}

using Rows = std::vector<std::string>;

// A decode step, a prefill that fits the cache and one that does not, and variants that differ in one property.
Rows small_grid(const std::string& threads) {
  return {"dtype=f32,bf16,f16 tokens=1,64,8192",
          "dtype=f32,bf16,f16 tokens=1,8192 in_place=false",
          "pairing=interleaved tokens=2048",
          "tokens=2048 layout=bhtd",
          "tokens=2048 head_dim=64",
          "tokens=2048 head_dim=96 rotary_dim=24",
          "op=backward,fused tokens=2048",
          "tokens=2048 threads=" + threads,
          "op=table tokens=1,8192"};
}

Rows full_grid(const std::string& threads) {
  const std::string kinds = "dtype=f32,bf16,f16 pairing=half,interleaved tokens=1,64,2048,8192 in_place=true,false",
                    both = " threads=1," + threads;
  return {kinds + " layout=bthd,bhtd head_dim=64,80,96,128,256" + both,
          kinds + " layout=bthd,bhtd head_dim=96 rotary_dim=24" + both, "op=backward,fused " + kinds + both,
          "op=table tokens=1,64,2048,8192,131072 head_dim=64,128" + both};
}

// A decode step and a prefill, and variants that differ in one property.
Rows small_cuda_grid() {
  return {"op=fused tokens=1,64,512,8192,32768 in_place=true,false",
          "op=fused tokens=1,8192 head_dim=64,80,96,256",
          "op=fused dtype=f16,f32 tokens=1,8192",
          "op=fused pairing=interleaved tokens=1,8192",
          "op=fused table=false tokens=1,8192",
          "op=rotate,backward,append,norm_append tokens=1,8192",
          "op=norm_append cache=f8 tokens=1,8192",
          "op=table tokens=1,8192"};
}

Rows full_cuda_grid() {
  const std::string kinds = " pairing=half,interleaved tokens=1,64,512,8192,32768 in_place=true,false",
                    all = " dtype=f32,bf16,f16" + kinds;
  return {"op=fused" + all + " head_dim=64,80,96,128,256",
          "op=fused table=false" + all,
          "op=rotate,backward" + kinds,
          "op=append,norm_append" + all,
          "op=append,norm_append cache=f8" + kinds,
          "op=table tokens=1,64,512,8192,32768,131072 head_dim=64,128"};
}

}  // namespace

Cell with(Cell cell, const Words& words) {
  const auto take = [&](const Property& property) {
    const auto word = words.find(property.key);
    if (word != words.end()) property.set(cell, word->second);
  };
  std::for_each(std::begin(properties), std::end(properties), take);
  std::for_each(std::begin(device_properties), std::end(device_properties), take);
  if (only_out_of_place(cell.op, cell.pairing)) cell.in_place = false;
  return cell;
}

Json describe(const Cell& cell) {
  Json json;
  const auto add = [&](const Property& property) {
    json[property.key] = property.of_heads && cell.op == Op::table ? Json() : property.value(cell);
  };
  std::for_each(std::begin(properties), std::end(properties), add);
  if (cell.cuda) std::for_each(std::begin(device_properties), std::end(device_properties), add);
  return json;
}

std::vector<Cell> combined(const Rows& rows, const Words& words) {
  std::vector<Cell> cells;
  std::set<std::string> seen;
  for (const std::string& row : rows) {
    std::vector<Words> combinations(1);
    for (const std::string& part : split(row, ' ')) {
      const auto [key, values] = key_and_value(part);
      std::vector<Words> product;
      for (const Words& before : combinations) {
        for (const std::string& value : split(values, ',')) {
          product.push_back(before);
          product.back()[key] = value;
        }
      }
      combinations = std::move(product);
    }
    for (const Words& each : combinations) {
      const Cell cell = with(with({}, each), words);
      if (seen.insert(describe(cell).dump()).second) cells.push_back(cell);
    }
  }
  return cells;
}

std::vector<Cell> grid(const std::string& name, unsigned threads, const Words& words) {
  const bool full = name == "full", cuda = with({}, words).cuda;
  if (cuda) return combined(full ? full_cuda_grid() : small_cuda_grid(), words);
  return combined(full ? full_grid(std::to_string(threads)) : small_grid(std::to_string(threads)), words);
}

std::vector<Cell> filtered(const std::vector<Cell>& cells, const std::string& filter) {
  std::map<std::string, std::set<std::string>> wanted;
  for (const std::string& term : split(filter, ',')) {
    const auto [key, value] = key_and_value(term);
    wanted[key].insert(value);
  }
  std::vector<Cell> kept;
  for (const Cell& cell : cells) {
    const Json keys = describe(cell);
    const auto has = [&keys](const auto& one) {
      if (!keys.contains(one.first)) return false;
      const Json& value = keys.at(one.first);
      return one.second.contains(value.is_string() ? value.get<std::string>() : value.dump());
    };
    if (std::all_of(wanted.begin(), wanted.end(), has)) kept.push_back(cell);
  }
  if (kept.empty()) throw UsageError("--filter takes KEY=VALUE,... but no cell has '" + filter + "'");
  return kept;
}

}  // namespace rotary::cli::bench
