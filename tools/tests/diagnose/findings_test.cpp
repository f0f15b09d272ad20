// Findings as values: their table, their sentences, and when two are one.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "diagnose/findings.h"
#include "files/tests/file_helpers.h"

namespace rotary::diagnose {
namespace {

std::vector<Cause> all_causes() {
  std::vector<Cause> list;
  for (int i = 0; i <= static_cast<int>(Cause::still_block); ++i) list.push_back(static_cast<Cause>(i));
  return list;
}

Finding multiplied(double factor, double error) {
  return finding(Cause::factor, {{"found", factor, 7, error}, {"asked", 1.0, 7}});
}

TEST(Findings, OneFaultIsEqualWithinItsErrors) {
  EXPECT_EQ(multiplied(1.25, 0.01), multiplied(1.255, 0.01));
  EXPECT_FALSE(multiplied(1.25, 0.001) == multiplied(1.255, 0.001));
  EXPECT_FALSE(multiplied(1.25, 0) == finding(Cause::without_factor, {{"asked", 1.0, 7}}));
  Finding head = multiplied(1.25, 0);
  head.where.heads = {3};
  EXPECT_FALSE(head == multiplied(1.25, 0));
  EXPECT_EQ(with_residuals(head, 1e-8, 0.5), with_residuals(head, 3e-7, 0.4));
}

TEST(Findings, ASentenceOfSeveralTensorsAndPlaces) {
  Finding head = multiplied(1.25, 0), other = finding(Cause::zero_after);
  head.where.heads = {1, 2, 3, 6};
  other.where.rows = {1};
  const std::vector<Finding> found = {head, other, finding(Cause::rest_as_asked)};
  EXPECT_EQ(render({"q"}, found),
            "q in heads 1-3, 6 is multiplied by 1.25; the model asks 1; in batch row 1 is zero after the rotation, in "
            "every element; all else is as the config asks");
  EXPECT_EQ(render({"q", "k"}, found),
            "q and k in heads 1-3, 6 are multiplied by 1.25; the model asks 1; in batch row 1 are zero after the "
            "rotation, in every element; all else is as the config asks");
  EXPECT_EQ(render({"q", "k"}, {finding(Cause::heads_differ)}),
            "q and k: cannot tell, because their angles differ from head to head in every layout");
  EXPECT_EQ(render({"q", "k"}, {multiplied(2, 0), finding(Cause::doubled)}),
            "q and k are multiplied by 2; the model asks 1; and they are rotated twice: every angle is double "
            "(positions that are doubled, or a speed that is, would look the same)");
}

TEST(Findings, EverySentenceIsFilled) {
  std::set<std::string> names;
  for (const Cause cause : all_causes()) {
    EXPECT_TRUE(names.insert(name(cause)).second) << name(cause);
    for (const std::vector<std::string>& tensors : {std::vector<std::string>{"q"}, {"q", "k"}}) {
      const std::string sentence = render(tensors, {finding(cause)});
      EXPECT_EQ(sentence.find_first_of("<>[]{}"), std::string::npos) << name(cause) << ": " << sentence;
    }
  }
}

// The table of docs/porting.md says of each verdict the causes that it has.
TEST(Findings, TheTableOfPorting) {
  std::map<std::string, std::string> wanted;
  for (const Cause cause : all_causes()) {
    std::string& causes = wanted[name(finding(cause).verdict)];
    causes += (causes.empty() ? "`" : ", `") + std::string(name(cause)) + "`";
  }
  wanted.erase("as_configured");
  const std::string page = test::read_text(ROTARY_SOURCE_DIR "/docs/porting.md");
  for (const auto& [verdict, causes] : wanted) {
    const std::size_t row = page.find("\n| `" + verdict + "` | ");
    ASSERT_NE(row, std::string::npos) << verdict;
    const std::size_t end = page.find('\n', row + 1);
    EXPECT_TRUE(page.substr(row, end - row).ends_with(" | " + causes + " |")) << verdict << ": " << causes;
  }
}

}  // namespace
}  // namespace rotary::diagnose
