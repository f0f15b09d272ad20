// Numbers that are read, computed or written are the same in every locale and floating-point state of the caller.
#include <gtest/gtest.h>

#include <cfenv>
#include <clocale>
#include <cstdlib>
#include <locale>

#include "files/tests/file_helpers.h"
#include "rotary/config.h"
#include "rotary/diagnose.h"
#include "rotary/rotary.h"

namespace rotary::test {
namespace {

constexpr const char* llama =
    R"({"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "rope_theta": )";
constexpr std::int64_t tokens = 40, dims = 64;

Tensor input(const std::string& name) {
  std::vector<float> values(static_cast<std::size_t>(tokens * 4 * dims));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 4001) / 1024.0F - 1.875F;
  return make_tensor<float>(name, ElementType::f32, {tokens, 4, dims}, values);
}

Tensor rotated(const Model& model, Tensor x) {
  const Table table(frequencies(model.ropes.at(0).rope), positions(0, tokens));
  rotate(Heads{x.data.data(), DType::f32, thd(tokens, 4, dims)}, table);
  return x;
}

// A config that is read, the frequencies, a rotated tensor as a file, and the config's parameters as they are written.
std::string computed() {
  const ScratchFolder folder;
  const Model model =
      parse_config(std::string(llama) + R"(12345.6789, "rope_scaling": {"rope_type": "yarn", "factor": 3.3,)"
                                        R"("original_max_position_embeddings": 8192, "beta_fast": 31.7}})");
  write_npy(folder / "x.npy", rotated(model, input("")));
  std::string text = read_text(folder / "x.npy") + rope_parameters(model.ropes.at(0).rope);
  const Frequencies speeds = frequencies(model.ropes.at(0).rope);
  text.append(reinterpret_cast<const char*>(speeds.inv_freq.data()), speeds.inv_freq.size() * sizeof(double));
  const Tensor back = read_npy(folder / "x.npy");
  return text + std::to_string(back.data.size());
}

// A tensor that is rotated by another base than the model's: the sentences and the JSON hold numbers with fractions.
std::string diagnosed() {
  const Tensor before = input("q");
  diagnose::Request request;
  request.model = parse_config(std::string(llama) + "10000.0}");
  const Tensor after = rotated(parse_config(std::string(llama) + "5000.25}"), before);
  return diagnose::to_json(diagnose::check(request, {{"q", before, after}}));
}

TEST(Caller, ALocaleWithADecimalCommaChangesNothing) {
  const ScratchFolder folder;
  write_text(folder / "comma.txt", R"(LC_CTYPE
tolower (I,y)
toupper (i,Y)
END LC_CTYPE
LC_NUMERIC
decimal_point ","
thousands_sep "."
grouping 3;3
END LC_NUMERIC
)");
  std::string ascii = "CHARMAP\n";  // which a system without the package locales lacks
  for (int c = 0; c < 128; ++c) {
    const std::string hex = {"01234567"[c / 16], "0123456789abcdef"[c % 16]};
    ascii += "<U00" + hex + "> /x" + hex + " c\n";
  }
  write_text(folder / "ascii.txt", ascii + "END CHARMAP\n");
  const std::string make = "cd '" + folder.path().string() + "' && localedef -c -f ./ascii.txt -i ./comma.txt ./comma";
  if (std::system((make + " 2>/dev/null").c_str()) > 256) GTEST_SKIP() << "no localedef";
  const std::string wanted = computed(), found = diagnosed();
  EXPECT_NE(found.find("5000"), std::string::npos) << found;
  setenv("LOCPATH", folder.path().c_str(), 1);
  const std::locale before = std::locale::global(std::locale("comma"));
  EXPECT_EQ(std::strtod("0,5", nullptr), 0.5);
  EXPECT_EQ(computed(), wanted);
  EXPECT_EQ(diagnosed(), found);
  std::locale::global(before);
  unsetenv("LOCPATH");
}

TEST(Caller, ARoundingModeAndFlushedSubnormalsChangeNothing) {
  const std::string wanted = computed();
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    std::fesetround(mode);
#if defined(__x86_64__)
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(before | 0x8040U);
#endif
    const std::string got = computed();
    EXPECT_EQ(std::fegetround(), mode);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#endif
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(got == wanted) << mode;
  }
}

}  // namespace
}  // namespace rotary::test
