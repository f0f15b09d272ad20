// A model, a tensor before, and what the engine made of it.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "diagnose/examination.h"
#include "tools/tests/diagnose/engine.h"

namespace rotary::diagnose_tests {

using diagnose::Cause;
using diagnose::Diagnosis;
using diagnose::Precision;
using diagnose::Role;
using diagnose::Subject;
using diagnose::Verdict;

// A model of 8 heads of 64 elements.
inline ModelRope model_rope(Scaling scaling = Unscaled{}, Pairing pairing = Pairing::half, double base = 10000) {
  ModelRope used;
  used.heads = 8;
  used.kv_heads = 2;
  used.rope.head_dim = used.rope.rotary_dim = 64;
  used.rope.base = base;
  used.rope.pairing = pairing;
  used.rope.scaling = std::move(scaling);
  return used;
}

inline Model model_of(const ModelRope& rope, ModelPart part = {}) {
  return {.model_type = {}, .parts = {std::move(part)}, .ropes = {rope}};
}

inline diagnose::Request request_of(Model model, std::optional<PositionSet> positions = {}) {
  diagnose::Request request;
  request.operation = "check";
  request.model = std::move(model);
  request.positions = std::move(positions);
  return request;
}

inline PositionSet from(double first, int tokens = 16) {
  PositionSet given;
  given.tokens = tokens;
  for (int t = 0; t < tokens; ++t) given.reals.push_back(first + t);
  return given;
}

// In the first layout without a difference.
inline diagnose::Checked compared(const Tensor& before, const Tensor& after, const Subject& subject) {
  const diagnose::Sample sample = diagnose::sample_as_given(before, after, subject);
  std::optional<diagnose::Checked> first;
  for (const diagnose::Reading& reading : diagnose::plausible_readings(sample, subject)) {
    const diagnose::Checked one = diagnose::compare(sample, reading, subject, std::nullopt).checked;
    if (one.equal) return one;
    if (!first) first = one;
  }
  return *first;
}

inline void expect_words(const Diagnosis& found, const std::string& words) {
  EXPECT_NE(found.sentence.find(words), std::string::npos) << found.sentence;
}
inline void expect_said(const Diagnosis& found, Verdict verdict, const std::string& words = "") {
  EXPECT_EQ(found.verdict, verdict) << found.sentence;
  expect_words(found, words);
}

struct Case {
  Case(ElementType t, Data d = {}) : type(t), before(random_data(d, t)) {}

  Diagnosis diagnose(const Engine& engine) { return diagnose_after(engine(before)); }
  Diagnosis diagnose_after(const Data& after) {
    subject.used = rope ? &*rope : nullptr;
    subject.context = 4096;
    const Tensor x = tensor_of(before, type, order), y = tensor_of(after, type, order);
    diagnose::NamedCheck named{"q", diagnose::diagnose_pair(x, y, subject)};
    diagnose::say(named);
    const Diagnosis result = named.diagnosis;
    EXPECT_FALSE(result.sentence.empty());
    if (rope) {  // check finds every fault that the elements show, and no other
      const diagnose::Checked checked = compared(x, y, subject);
      EXPECT_NE(checked.equal, checked.first.has_value());
      EXPECT_TRUE(checked.equal || result.verdict != Verdict::as_configured) << result.sentence;
    }
    return result;
  }

  ElementType type;
  std::string order = "bthd";
  std::optional<ModelRope> rope = model_rope();
  Subject subject = {};
  Data before;
};

}  // namespace rotary::diagnose_tests
