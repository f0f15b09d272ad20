// Any text as a sheet of models is refused in one line, or gives a sheet by which models can be read.
#include "core/tests/fuzz/fuzz.h"
#include "models/families.h"
#include "models/table.h"
#include "rotary/config.h"

namespace rotary::fuzz {

std::vector<std::string> seeds() {
  const std::string own = R"({"schema":1,"data":"a","extends":true,)";
  return {
      own + R"("models":{"own":{"pairing":"interleaved","shape":{"layers":2,"heads":4,"hidden":64},"context":128,)"
            R"("base":5000,"partial":0.5,"pattern":{"types":["sliding","full"]},"rope_parameters":{"rope_type":"yarn",)"
            R"("factor":4.0}}},"children":{"own_vl":{"text_config":"own","vision_config":{"type":"pixtral"}}}})",
      own +
          R"("towers":{"pixtral":{"words":"by row and column","axes":"height width"}},"query_scales":[{"type":"llama",)"
          R"("scale":{"form":"steps","amount":0.1,"length":8192}}],)"
          R"("misnamed":[{"architecture":"Own","family":"llama"}]})",
      own +
          R"("positions":{"llama":{"order":"blocks","merge":2}},"counted":{"seen":["llama"]},"refused":{"own":"odd"},)"
          R"("architectures":{"own":{"rope_type":"mrope"}},"diffusers":{"Own":{"axes":[],"split":"equal"}}})",
  };
}

std::vector<std::string> words() {
  return words_of(
      R"("mla":{"rope":3} "sections":[1,2] "tower":"pixtral" "quirk":"falcon" "own" "llama" "dim": "dim_key":"d"
"inside":"text_config" "laid":"across_heads" "defaults":{}
"remark":{} null true [] {} 0 -1 1e308 1048576 2147483648 , [[[[ \n)");
}

void one(const std::string& input) {
  try {
    const auto sheet = files::read_sheet(input);
    const files::SheetOfReading reading(sheet.get());
    for (const char* type : {"own", "own_vl", "llama", "qwen2_vl"})
      parse_config(R"({"hidden_size":64,"num_attention_heads":4,"num_hidden_layers":2,"model_type":")" +
                   std::string(type) + "\"}");
  } catch (const Error& error) {
    require_refusal(
        error, "[",
        {"FORMAT", "JSON", "CONFIG_KEY", "CONFIG_VALUE", "CONFIG_MISSING", "MODEL_TYPE", "ROPE", "SCALING", "SHAPE"});
  }
}

}  // namespace rotary::fuzz
