// A small engine with every knob that engines get wrong. It rotates in double, by the formula, and shares no code with
// the library: what it makes is diagnosed.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "rotary/config.h"
#include "rotary/tensors.h"

namespace rotary::diagnose_tests {

// base^(-2i/width) for i = 0, 1, ...
inline std::vector<double> speeds(double base = 10000, int width = 64) {
  std::vector<double> list;
  for (int i = 0; i < width / 2; ++i) list.push_back(std::pow(base, -2.0 * i / width));
  return list;
}

inline double to_type(double value, ElementType type) {
  if (type == ElementType::bf16) return to_float(to_bf16(static_cast<float>(value)));
  if (type == ElementType::f16) return to_float(to_f16(static_cast<float>(value)));
  return type == ElementType::f32 ? static_cast<float>(value) : value;
}

// A tensor of [batch, tokens, heads, head_dim].
struct Data {
  int batch = 1, tokens = 16, heads = 8, head_dim = 64;
  std::vector<double> values = {};

  std::size_t at(int b, int t, int h, int d) const {
    return static_cast<std::size_t>(((b * tokens + t) * heads + h) * head_dim + d);
  }
  double operator()(int b, int t, int h, int d) const { return values[at(b, t, h, d)]; }
};

// The data with value(b, t, h, d) at each place.
template <class Value>
Data with_values(Data data, Value value) {
  for (int b = 0; b < data.batch; ++b) {
    for (int t = 0; t < data.tokens; ++t) {
      for (int h = 0; h < data.heads; ++h) {
        for (int d = 0; d < data.head_dim; ++d) data.values[data.at(b, t, h, d)] = value(b, t, h, d);
      }
    }
  }
  return data;
}

// Each head by a norm with a weight for each element, RMS or with a mean and a bias.
inline Data normed(const Data& x, ElementType type, bool with_mean = false) {
  return with_values(x, [&](int b, int t, int h, int d) {
    double sum = 0, squares = 0;
    for (int u = 0; u < x.head_dim; ++u) sum += x(b, t, h, u), squares += x(b, t, h, u) * x(b, t, h, u);
    const double mean = with_mean ? sum / x.head_dim : 0, size = std::sqrt(squares / x.head_dim - mean * mean + 1e-6);
    const double weight = 1 + 0.5 * std::sin(d), bias = with_mean ? 0.3 * std::cos(d) : 0;
    return to_type(weight * (x(b, t, h, d) - mean) / size + bias, type);
  });
}

inline Data random_data(Data data, ElementType type, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  data.values.resize(data.at(data.batch - 1, data.tokens - 1, data.heads - 1, data.head_dim - 1) + 1);
  for (double& value : data.values) value = to_type(normal(random), type);
  return data;
}

enum class Pairs { half, interleaved, interleaved_to_half };

struct Engine {
  std::vector<double> speed = speeds();
  Pairs pairs = Pairs::half;
  int first = 0;
  double factor = 1;
  bool clockwise = false;
  std::function<double(int b, int t, int h)> position = [](int, int t, int) { return static_cast<double>(t); };
  std::function<double(int h, int t, int pair)> angle = {};  // instead of position * speed
  std::function<double(int t, int pair)> amplitude = [](int, int) { return 1.0; };
  std::function<double(double)> rounds_angle = {};
  std::function<double(double)> rounds_table = {};
  std::function<bool(int h)> rotates = [](int) { return true; };

  Data operator()(const Data& x) const {
    Data y = x;
    const int n = static_cast<int>(speed.size());
    for (int b = 0; b < x.batch; ++b) {
      for (int t = 0; t < x.tokens; ++t) {
        for (int h = 0; h < x.heads; ++h) {
          for (int i = 0; i < n && rotates(h); ++i) rotate_pair(x, y, b, t, h, i);
        }
      }
    }
    return y;
  }

 private:
  void rotate_pair(const Data& x, Data& y, int b, int t, int h, int i) const {
    const int n = static_cast<int>(speed.size());
    double turn = angle ? angle(h, t, i) : position(b, t, h) * speed[static_cast<std::size_t>(i)];
    if (rounds_angle) turn = rounds_angle(turn);
    const double size = factor * amplitude(t, i);
    double cosine = size * std::cos(turn), sine = (clockwise ? -1 : 1) * size * std::sin(turn);
    if (rounds_table) {
      cosine = rounds_table(cosine);
      sine = rounds_table(sine);
    }
    const bool reads_apart = pairs == Pairs::half, writes_apart = pairs != Pairs::interleaved;
    const int u = first + (reads_apart ? i : 2 * i), v = first + (reads_apart ? i + n : 2 * i + 1);
    const int to_u = first + (writes_apart ? i : 2 * i), to_v = first + (writes_apart ? i + n : 2 * i + 1);
    const double a = x(b, t, h, u), c = x(b, t, h, v);
    y.values[y.at(b, t, h, to_u)] = a * cosine - c * sine;
    y.values[y.at(b, t, h, to_v)] = c * cosine + a * sine;
  }
};

// order: of the dimensions, "bthd", "bhtd" or "tbhd".
inline Tensor tensor_of(const Data& data, ElementType type, const std::string& order = "bthd",
                        const std::string& name = "q") {
  const auto size = [&](char letter) {
    return letter == 'b' ? data.batch : letter == 't' ? data.tokens : letter == 'h' ? data.heads : data.head_dim;
  };
  Tensor tensor;
  tensor.name = name;
  tensor.type = type;
  for (const char letter : order) tensor.shape.push_back(size(letter));
  const auto append = [&](const auto& element) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&element);
    tensor.data.insert(tensor.data.end(), bytes, bytes + sizeof element);
  };
  const std::string four = order.size() == 4 ? order : order == "thd" ? "bthd" : "bhtd";
  for (int i = 0; i < size(four[0]); ++i) {
    for (int j = 0; j < size(four[1]); ++j) {
      for (int k = 0; k < size(four[2]); ++k) {
        for (int d = 0; d < data.head_dim; ++d) {
          const auto pick = [&](char letter) { return four[0] == letter ? i : four[1] == letter ? j : k; };
          const double value = data(pick('b'), pick('t'), pick('h'), d);
          if (type == ElementType::f64) append(value);
          if (type == ElementType::f32) append(static_cast<float>(value));
          if (type == ElementType::f16) append(to_f16(static_cast<float>(value)));
          if (type == ElementType::bf16) append(to_bf16(static_cast<float>(value)));
        }
      }
    }
  }
  tensor.bytes = tensor.data.size();
  return tensor;
}

}  // namespace rotary::diagnose_tests
