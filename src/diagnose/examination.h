// What is known of one tensor while it is diagnosed.
#pragma once

#include <string>
#include <vector>

#include "diagnose.h"
#include "motion.h"
#include "turns.h"

namespace rotary::diagnose {

// text continues a sentence that begins with the tensor's name.
struct Finding {
  Verdict verdict = Verdict::cannot_tell;
  std::string text;
};

struct Examination {
  const Sample& sample;
  const Question& question;
  BlockSearch search;
  Turns turns;
  std::vector<std::vector<double>>
      expected;       // per axis, of each row of turns; without a rope and positions 0, 1, 2, ...
  double factor = 1;  // measured
  Facts facts;
  std::vector<Finding> findings;
  double residual = 0;

  void find(Verdict verdict, const std::string& text) { findings.push_back({verdict, text}); }
  bool kind_is_known() const;
  void set_positions(const std::vector<double>& position);  // of each row, as facts
};

// The block and the frequencies that a rope asks for a tensor of that head_dim.
struct Asked {
  const ModelRope& used;
  Block block;
  std::int64_t length = 0;
  Frequencies frequencies;
  Motion motion;  // at the expected positions
};
int head_dim_of(const Question&, const Tensor&);  // 0: that of the last dimension
std::optional<Block> asked_block(const Question&, int head_dim);
Rope rope_for_block(Rope, const Block&);  // the rope as it would be in a block of that width
Asked ask(const ModelRope&, const Block&, const Question&, const std::vector<std::vector<double>>& expected);

// The dimensions of which the turns do not depend on the head; fills order, turns, expected and factor. False: none.
bool find_order(Examination&);

// The orders that fit the question, those first whose heads are the rope's.
std::vector<Order> plausible_orders(const Sample&, const Question&);
// 2: the heads are those of the rope; 1: they could be a shard of them, or are not known; 0: neither.
int plausibility(const Order&, const Question&);
std::vector<std::vector<double>> expected_positions(const Order&, const Question&);

// A fault after which no pairing keeps the norms. False: none that is known.
bool examine_composites(Examination&);
void examine_with_rope(Examination&);
void examine_without_rope(Examination&);
// The turns differ from head to head in every layout.
void examine_heads(Examination&);

std::string residuals(double found, double asked);  // "residual 3e-08 against 0.9"

}  // namespace rotary::diagnose
