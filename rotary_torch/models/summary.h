// The modules of a model as a tree, with the output shape and the number of parameters of each.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace rotary_torch {

struct SummaryRow {
  std::string name = {};                        // in its parent, "" for the model
  std::string path = {};                        // from the model, as in named_modules(): "layers.0.attention"
  std::string type = {};                        // "Linear"
  int depth = 0;                                // 0 for the model
  std::vector<std::int64_t> output_shape = {};  // empty: none of its own (a list of modules)
  std::int64_t parameters = 0;                  // including its children; shared ones count in their first row only
  std::int64_t own_parameters = 0;              // without its children
  bool trainable = true;                        // false: it has parameters and all of them are frozen
};

struct Summary {
  std::vector<SummaryRow> rows;  // the model, then its modules, depth first
  std::int64_t parameters = 0;   // shared ones once
  std::int64_t trainable = 0;
  std::int64_t bytes_f32() const noexcept { return 4 * parameters; }
};

// The summary of a Decoder or RoFormer for ids [batch, tokens]. It uses only shapes; the model may be on the meta
// device.
Summary summarise(const torch::nn::Module& model, std::int64_t batch, std::int64_t tokens);

}  // namespace rotary_torch
