#include "layouts.h"

#include <limits>

#include "input.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::files {

namespace {

std::size_t dimensions_of(const std::string& word) { return word.size(); }

}  // namespace

const std::vector<std::string> layout_words = {"bthd", "bhtd", "tbhd", "thd", "htd", "hd", "td", "flat"};

Layout layout_of(std::string_view operation, const TensorInfo& tensor, const std::string& word, int head_dim) {
  const std::vector<std::int64_t>& size = tensor.shape;
  const bool flat = word == "flat";
  if (flat ? size.size() != 2 && size.size() != 3 : size.size() != dimensions_of(word)) {
    fail(Code::SHAPE, operation,
            "layout " + word + " needs " + (flat ? "2 or 3" : std::to_string(dimensions_of(word))) +
                " dimensions but " + label(tensor) + " is " + detail::shape_text(size));
  }
  if (size.back() > std::numeric_limits<int>::max() && !flat) {
    fail(Code::SHAPE, operation, "head_dim must fit 32 bits but " + label(tensor) + " is " + detail::shape_text(size));
  }
  if (flat) {
    if (head_dim < 1) fail(Code::SHAPE, operation, "layout flat needs a CONFIG, which says head_dim, but got none");
    if (size.back() % head_dim != 0) {
      fail(Code::SHAPE, operation,
              "layout flat needs a last dimension that is a multiple of head_dim " + std::to_string(head_dim) +
                  " but " + label(tensor) + " is " + detail::shape_text(size));
    }
    const std::int64_t heads = size.back() / head_dim;
    return size.size() == 2 ? thd(size[0], heads, head_dim) : bthd(size[0], size[1], heads, head_dim);
  }
  const int last = static_cast<int>(size.back());
  if (word == "bhtd") return bhtd(size[0], size[1], size[2], last);
  if (word == "tbhd") return tbhd(size[0], size[1], size[2], last);
  if (word == "thd") return thd(size[0], size[1], last);
  if (word == "htd") return bhtd(1, size[0], size[1], last);
  if (word == "hd") return thd(1, size[0], last);
  if (word == "td") return thd(size[0], 1, last);
  return bthd(size[0], size[1], size[2], last);
}

}  // namespace rotary::files
