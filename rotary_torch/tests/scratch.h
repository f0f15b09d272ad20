// A scratch folder for a test, and what an error must say.
#pragma once

#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "rotary/error.h"

namespace rotary_torch {

class Scratch : public testing::Test {
 protected:
  void SetUp() override {
    at::set_num_threads(1);
    std::string pattern = (std::filesystem::temp_directory_path() / "rotary_training_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

 private:
  std::filesystem::path folder_;
};

template <typename Work>
void expect_error(const std::string& code, const std::string& words, const Work& work) {
  try {
    work();
    ADD_FAILURE() << "no error; expected " << code << " with '" << words << "'";
  } catch (const rotary::Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace rotary_torch
