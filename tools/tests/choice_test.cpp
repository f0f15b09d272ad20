// The place of a config.
#include "rotary/choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "files/tests/file_helpers.h"

namespace rotary {
namespace {

TEST(ConfigPlace, is_a_file_a_folder_or_a_snapshot_of_the_cache) {
  const test::ScratchFolder cache;
  const std::filesystem::path repository = cache / "models--org--name", snapshot = repository / "snapshots" / "c0ffee";
  std::filesystem::create_directories(snapshot);
  std::filesystem::create_directories(repository / "refs");
  test::write_text(repository / "refs" / "main", "c0ffee\n");
  test::write_text(snapshot / "config.json", "{}");
  ASSERT_EQ(setenv("HF_HUB_CACHE", cache.path().c_str(), 1), 0);
  EXPECT_EQ(config_path("org/name"), snapshot);
  EXPECT_EQ(config_text_at("org/name@c0ffee"), "{}");
  EXPECT_EQ(config_path(snapshot.string()), snapshot);
  EXPECT_EQ(config_text_at((snapshot / "config.json").string()), "{}");
  test::expect_error("FILE", "hf download org/other config.json", [] { config_path("org/other"); });
  unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace rotary
