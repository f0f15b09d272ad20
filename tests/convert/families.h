// Checkpoints of many families, read back as the models' own code reads them: the elements of each head after the
// conversion are those before it in the other order.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "folder.h"

namespace rotary::convert_tests {

// Where element d of a head lies: the tensor, and its row.
using Place = std::pair<std::string, std::int64_t>;

struct Heads {
  int count = 0;
  std::function<Place(int head, int element)> at;
};

struct Family {
  std::string name;
  std::string config;
  std::vector<Tensor> tensors;
  std::vector<Heads> heads;  // those that rotate
  int head_dim = 0;
  int first = 0;
  int pairs = 0;
  Pairing native = Pairing::half;
};

inline const std::byte* row_of(const Tensors& tensors, const Place& place, std::size_t& bytes) {
  const Tensor& tensor = tensors.at(place.first);
  bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
  return tensor.data.data() + static_cast<std::size_t>(place.second) * bytes;
}

inline void expect_same_row(const Tensors& a, const Place& of_a, const Tensors& b, const Place& of_b) {
  std::size_t bytes = 0;
  const std::byte* row_a = row_of(a, of_a, bytes);
  const std::byte* row_b = row_of(b, of_b, bytes);
  EXPECT_EQ(std::memcmp(row_a, row_b, bytes), 0) << of_a.first << " row " << of_a.second << " and " << of_b.second;
}

inline Place shifted(const Heads& heads, int head, int element) { return heads.at(head, element); }

class Families : public Checkpoint {
 protected:
  void expect_converts(const Family& family) {
    SCOPED_TRACE(family.name);
    const fs::path source = make(family.name, family.config, family.tensors);
    const Pairing other = family.native == Pairing::half ? Pairing::interleaved : Pairing::half;
    const convert::Plan plan = convert::make_plan(source, other, std::nullopt);
    std::vector<convert::LayerCheck> checks;
    convert::write_folder(
        plan, path(family.name + "-2"), [](std::uint64_t) {},
        [&](const fs::path& written) { checks = convert::verify(plan, written, nullptr); });
    EXPECT_FALSE(checks.empty());
    EXPECT_EQ(convert::verify(plan, std::nullopt, nullptr), checks);
    for (const convert::LayerCheck& check : checks) {
      EXPECT_EQ(check.largest_difference, 0) << check.layer;
      EXPECT_GT(check.difference_unconverted, 0) << check.layer;
    }
    const Tensors before = tensors_in(source), after = tensors_in(path(family.name + "-2"));
    expect_heads(family, family.native == Pairing::half ? before : after,
                 family.native == Pairing::half ? after : before);
    expect_rest(family, before, after);
    convert(path(family.name + "-2"), family.native, path(family.name + "-3"));
    expect_same_files(source, path(family.name + "-3"));
  }

 private:
  static void expect_heads(const Family& family, const Tensors& half, const Tensors& interleaved) {
    for (const Heads& heads : family.heads) {
      for (int h = 0; h < heads.count; ++h) {
        for (int j = 0; j < family.pairs; ++j) {
          const int first = family.first;
          expect_same_row(half, shifted(heads, h, first + j), interleaved, shifted(heads, h, first + 2 * j));
          expect_same_row(half, shifted(heads, h, first + family.pairs + j), interleaved,
                          shifted(heads, h, first + 2 * j + 1));
        }
      }
    }
  }

  // Rows that belong to no rotated element keep their bytes.
  static void expect_rest(const Family& family, const Tensors& before, const Tensors& after) {
    std::map<std::string, std::vector<bool>> rotated;
    for (const Heads& heads : family.heads) {
      for (int h = 0; h < heads.count; ++h) {
        for (int d = family.first; d < family.first + 2 * family.pairs; ++d) {
          const Place place = heads.at(h, d);
          std::vector<bool>& rows = rotated[place.first];
          rows.resize(static_cast<std::size_t>(before.at(place.first).shape[0]));
          rows[static_cast<std::size_t>(place.second)] = true;
        }
      }
    }
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, tensor] : before) {
      const std::vector<bool>& rows = rotated[name];
      for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
        const bool moves = !rows.empty() && rows[static_cast<std::size_t>(row)];
        if (!moves) expect_same_row(before, {name, row}, after, {name, row});
      }
    }
  }
};

inline Tensor rows(const std::string& name, std::int64_t count, std::int64_t in = 12) {
  return some_tensor(name, ElementType::f32, {count, in});
}
inline Tensor vector(const std::string& name, std::int64_t count) {
  return some_tensor(name, ElementType::f32, {count});
}

inline Heads plain(const std::string& name, int count, int stride) {
  return {count, [=](int head, int d) { return Place{name, head * stride + d}; }};
}
// One weight for every head.
inline Heads shared(const std::string& name) {
  return {1, [=](int, int d) { return Place{name, d}; }};
}

inline const std::string llama =
    R"("hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 1,
 "intermediate_size": 16, "max_position_embeddings": 64, "rope_theta": 10000.0, "vocab_size": 8)";

}  // namespace rotary::convert_tests
