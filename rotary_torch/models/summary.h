// What a model is made of: its modules as a tree, the shape that each gives, and how many parameters it holds.
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
  int depth = 0;                                // of the model 0
  std::vector<std::int64_t> output_shape = {};  // empty: none of its own (a list of modules)
  std::int64_t parameters = 0;                  // with everything below; those that an earlier row has do not count
  std::int64_t own_parameters = 0;              // not in a row below
  bool trainable = true;                        // false: it has parameters and all are frozen
};

struct Summary {
  std::vector<SummaryRow> rows;  // the model, then its modules, depth first
  std::int64_t parameters = 0;   // shared ones once
  std::int64_t trainable = 0;
  std::int64_t bytes_f32() const noexcept { return 4 * parameters; }
};

// Of a Decoder or a RoFormer on ids [batch, tokens]. Only shapes are looked at: a model on the meta device will do.
Summary summarise(const torch::nn::Module& model, std::int64_t batch, std::int64_t tokens);

}  // namespace rotary_torch
