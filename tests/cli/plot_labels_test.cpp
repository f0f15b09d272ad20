// rotary plot: every name of a line or a guide is nearer to its own than to any other, and names stand in the order of
// their guides.
#include "picture.h"
#include "picture_judge.h"
#include "plot_command.h"

namespace rotary::cli_tests {
namespace {

using plot_tests::Points;
using plot_tests::TextBox;

double pixel_at(const Points& ticks, double value, bool log) {
  const auto scale = [log](double number) { return log ? std::log(number) : number; };
  const auto [pixel0, value0] = ticks.front();
  const auto [pixel1, value1] = ticks.back();
  return pixel0 + (scale(value) - scale(value0)) / (scale(value1) - scale(value0)) * (pixel1 - pixel0);
}

double distance_to(const TextBox& box, double x, double y) {
  return std::max({box.left - x, x - box.right, box.top - y, y - box.bottom, 0.0});
}

double distance_to(const TextBox& box, const Points& curve) {
  double least = 1e9;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    const auto [x0, y0] = curve[i == 0 ? 0 : i - 1];
    const auto [x1, y1] = curve[i];
    for (int step = 0; step <= 40; ++step)
      least = std::min(least, distance_to(box, x0 + step / 40.0 * (x1 - x0), y0 + step / 40.0 * (y1 - y0)));
  }
  return least;
}

// Names in the drawing area, of that size.
std::vector<TextBox> names_of_size(const std::string& svg, const std::string& size) {
  const std::vector<plot_tests::Element> document = plot_tests::parse_xml(svg);
  std::vector<TextBox> boxes;
  for (std::size_t i = 0; i < document.size(); ++i) {
    const auto& attributes = document[i].attributes;
    if (document[i].name == "text" && attributes.count("paint-order") != 0 && attributes.at("font-size") == size)
      boxes.push_back(plot_tests::box_of_text(document, i));
  }
  return boxes;
}

// Each word that is a number.
std::vector<double> numbers_in(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0) numbers.push_back(std::stod(word));
  return numbers;
}

// level: guides of one value across the picture; else upright.
void expect_guides_named(const Json& plot, const std::string& svg, bool level) {
  const plot_tests::Picture picture = plot_tests::read_picture(svg);
  std::map<double, double> pixels;  // by value
  for (const Json& guide : plot.at("guides")) {
    if (guide.at("name") == "") continue;
    const double value = guide.at("points")[0][level ? 1 : 0];
    pixels[value] = pixel_at(level ? picture.y_ticks : picture.x_ticks, value, true);
  }
  std::map<double, TextBox> named;
  for (const TextBox& box : names_of_size(svg, "11")) {
    const std::vector<double> values = numbers_in(box.text);
    ASSERT_FALSE(values.empty()) << box.text;
    const auto distance = [&](double pixel) {
      return level ? distance_to(box, box.left, pixel) : distance_to(box, pixel, box.top);
    };
    double own = 1e9, others = 1e9;
    for (const auto& [value, pixel] : pixels) {
      const bool mine = std::find(values.begin(), values.end(), value) != values.end();
      double& least = mine ? own : others;
      least = std::min(least, distance(pixel));
      if (mine) {
        EXPECT_TRUE(named.insert({value, box}).second) << value;
      }
    }
    EXPECT_LT(own, others) << box.text;
    EXPECT_LT(own, 8) << box.text;
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_LT(std::abs(pixels.at(*low) - pixels.at(*high)), 11.6 * static_cast<double>(values.size() - 1) + 0.1)
        << "one name for lines that could have two: " << box.text;
  }
  EXPECT_EQ(named.size(), pixels.size()) << "every guide has a name";
  double last = level ? 1e9 : -1e9;
  for (const auto& [value, box] : named) {  // rising
    const double middle = level ? (box.top + box.bottom) / 2 : (box.left + box.right) / 2;
    EXPECT_TRUE(level ? middle <= last : middle >= last) << box.text;
    last = middle;
  }
}

void expect_lines_named(const std::string& svg) {
  const plot_tests::Picture picture = plot_tests::read_picture(svg);
  double last = 0;
  for (const plot_tests::Curve& curve : picture.curves) last = std::max(last, curve.pixels.back().first);
  for (const TextBox& box : names_of_size(svg, "12")) {
    double own = 1e9, others = 1e9;
    for (const plot_tests::Curve& curve : picture.curves) {
      double& least = curve.name == box.text ? own : others;
      if (curve.name != box.text && curve.faint) continue;
      const bool at_end = box.left > last;
      const double y = curve.pixels.back().second;
      least = std::min(least, at_end ? std::abs((box.top + box.bottom) / 2 - y) : distance_to(box, curve.pixels));
    }
    const bool of_line = own < 1e9;  // not of a band
    EXPECT_TRUE(!of_line || own < others) << box.text << ' ' << own << ' ' << others;
  }
}

TEST_F(PlotCommand, names_are_nearest_to_their_own_lines_and_in_their_order) {
  const auto config = [](const char* name) { return golden_configs + name + ".json"; };
  const Words five = {config("llama-2-7b"), config("llama-3.1-8b"), config("qwen2.5-vl-7b"), config("gpt-oss-20b"),
                      config("deepseek-v3")};
  for (std::size_t first = 0; first < five.size(); ++first) {
    for (std::size_t end = first + 1; end <= five.size(); ++end) {
      for (const char* kind : {"wavelengths", "decay"}) {
        if (kind == std::string("decay") && end - first != 3) continue;  // these are slower
        Words words = {kind};
        words.insert(words.end(), five.begin() + static_cast<std::ptrdiff_t>(first),
                     five.begin() + static_cast<std::ptrdiff_t>(end));
        if (kind == std::string("decay")) words.insert(words.end(), {"--envelope", "none"});
        SCOPED_TRACE(std::string(kind) + " " + std::to_string(first) + " " + std::to_string(end));
        const std::string svg = print(words);
        expect_guides_named(json(words), svg, kind == std::string("wavelengths"));
        expect_lines_named(svg);
        plot_tests::expect_readable(svg);
      }
    }
  }
}

TEST_F(PlotCommand, lengths_that_lie_close_are_named_in_their_order) {
  const std::string llama = golden_configs + "llama-3.1-8b.json";
  for (const int context : {8193, 9000, 12000, 14000, 15000, 17000, 20000, 33000}) {
    SCOPED_TRACE(context);
    for (const char* kind : {"wavelengths", "decay"}) {
      const Words words = {kind, llama, "--context", std::to_string(context)};
      expect_guides_named(json(words), print(words), kind == std::string("wavelengths"));
    }
  }
}

}  // namespace
}  // namespace rotary::cli_tests
