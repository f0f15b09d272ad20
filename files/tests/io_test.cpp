// files/text: only regular files are read, as they were when they were opened; a write leaves the old file or the whole
// new one; misspelt words.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "files/tests/file_helpers.h"
#include "files/tests/full_disk.h"
#include "text/io.h"
#include "text/nearest.h"

namespace rotary::test {
namespace {

namespace fs = std::filesystem;

// ---- regular files only --------------------------------------------------------------------------

TEST(Input, OnlyRegularFilesAreRead) {
  const ScratchFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect_error("FILE", "this is a folder", [&] { SafetensorsFile{folder.path()}; });
  expect_error("FILE", "this is a pipe", [&] { read_npy(pipe); });
  expect_error("FILE", "this is a device", [&] { read_npy("/dev/zero"); });
  expect_error("FILE", "No such file", [&] { SafetensorsFile{folder / "missing"}; });
  expect_error("FILE", "missing", [&] { read_npy(folder / "missing"); });
}

TEST(Input, AFileThatIsReplacedIsReadAsItWasAndOneThatShrinksIsAnError) {
  const ScratchFolder folder;
  const Tensor before = make_tensor<float>("q", ElementType::f32, {2}, {1, 2});
  const Tensor after = make_tensor<double>("q", ElementType::f64, {100}, counted<double>(100));
  write_safetensors(folder / "a", std::array{&before});
  const SafetensorsFile first(folder / "a");
  write_safetensors(folder / "a", std::array{&after});
  EXPECT_EQ(values_of<float>(first.read("q")), (std::vector<float>{1, 2}));
  const SafetensorsFile second(folder / "a");
  fs::resize_file(folder / "a", 200);
  expect_error("FILE", "now ends at 200", [&] { second.read("q"); });
}

// ---- the old file or the whole new one -----------------------------------------------------------

TEST(Output, AFailedWriteLeavesTheOldFileAndNothingElse) {
  const ScratchFolder folder;
  write_text(folder / "a", "old");
  const Tensor tensor = make_tensor<double>("q", ElementType::f64, {1000}, counted<double>(1000));
  {
    const FullDisk full(1000);
    expect_error("FILE", "cannot be written: File too large", [&] { write_npy(folder / "a", tensor); });
    expect_error("FILE", (folder / "a").string(), [&] { write_safetensors(folder / "a", std::array{&tensor}); });
    expect_error("FILE", "cannot be written", [&] { write_npy(folder / "new", tensor); });
  }
  EXPECT_EQ(read_text(folder / "a"), "old");
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  write_npy(folder / "a", tensor);
  EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
  expect_same(read_npy(folder / "a"), tensor);
}

// On Ctrl-C, a closed terminal or a shutdown the temporary file is removed, and the signal ends the process.
TEST(Output, ASignalThatEndsTheProcessLeavesNoTemporaryFile) {
  const ScratchFolder folder;
  write_text(folder / "a", "old");
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      std::signal(number, SIG_DFL);
      files::write_whole("test", folder / "a", [number](const files::Sink& sink) {
        sink(files::bytes_of("new"));
        raise(number);
      });
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == number) << number;
    EXPECT_EQ(names_in(folder.path()), std::vector<std::string>{"a"});
    EXPECT_EQ(read_text(folder / "a"), "old");
  }
  struct sigaction mine {};  // a program that handles a signal keeps its handler and flags
  mine.sa_handler = SIG_IGN;
  mine.sa_flags = SA_NODEFER;
  sigaddset(&mine.sa_mask, SIGUSR1);
  sigaction(SIGTERM, &mine, nullptr);
  files::write_whole("test", folder / "a", [](const files::Sink& sink) {
    raise(SIGTERM);
    sink(files::bytes_of("new"));
  });
  struct sigaction kept {};
  sigaction(SIGTERM, nullptr, &kept);
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_TRUE(kept.sa_handler == SIG_IGN && (kept.sa_flags & SA_NODEFER) != 0);
  EXPECT_EQ(sigismember(&kept.sa_mask, SIGUSR1), 1);
  EXPECT_EQ(read_text(folder / "a"), "new");
}

TEST(Output, WhatIsNoRegularFileIsNotReplaced) {
  const ScratchFolder folder;
  const Tensor tensor = make_tensor<float>("q", ElementType::f32, {1}, {1});
  fs::create_directory(folder / "sub");
  expect_error("FILE", "this is a folder", [&] { write_npy(folder / "sub", tensor); });
  expect_error("FILE", "this is a device", [&] { write_npy("/dev/full", tensor); });
  expect_error("FILE", "No such file", [&] { write_npy(folder / "missing" / "a.npy", tensor); });
  write_text(folder / "file", "");
  expect_error("FILE", "Not a directory", [&] { write_npy(folder / "file" / "a.npy", tensor); });
  expect_error("FILE", "", [&] { write_npy("", tensor); });
  EXPECT_TRUE(fs::is_empty(folder / "sub"));
}

TEST(Output, AFolderThatMayNotBeWrittenIsAnError) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const ScratchFolder folder;
  fs::permissions(folder.path(), fs::perms::owner_read | fs::perms::owner_exec);
  expect_error("FILE", "Permission denied",
               [&] { write_npy(folder / "a.npy", make_tensor<float>("q", ElementType::f32, {1}, {1})); });
}

TEST(Output, ASymbolicLinkIsFollowedAndStays) {
  const ScratchFolder folder;
  const Tensor tensor = make_tensor<float>("", ElementType::f32, {1}, {1});
  fs::create_directory(folder / "there");
  fs::create_symlink("there/file.npy", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  write_npy(folder / "absolute", tensor);  // the link dangles at first
  write_npy(folder / "absolute", tensor);
  EXPECT_TRUE(fs::is_symlink(folder / "absolute"));
  EXPECT_TRUE(fs::is_symlink(folder / "relative"));
  EXPECT_EQ(names_in(folder / "there"), std::vector<std::string>{"file.npy"});
  fs::create_symlink("round", folder / "round");
  expect_error("FILE", "symbolic links", [&] { write_npy(folder / "round", tensor); });
}

TEST(Output, PermissionsOfTheOldFileAreKept) {
  const ScratchFolder folder;
  const Tensor tensor = make_tensor<float>("", ElementType::f32, {1}, {1});
  write_text(folder / "a", "old");
  fs::permissions(folder / "a", fs::perms::owner_read | fs::perms::owner_write);
  write_npy(folder / "a", tensor);
  EXPECT_EQ(fs::status(folder / "a").permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST(Output, TemporaryNamesOfKilledProgramsAreStepped) {
  const ScratchFolder folder;
  const Tensor tensor = make_tensor<float>("", ElementType::f32, {1}, {1});
  for (int i = 0; i < 500; ++i) {
    write_text(folder / (".rotary-" + std::to_string(getpid()) + "-" + std::to_string(i) + ".tmp"), "left");
  }
  write_npy(folder / "a.npy", tensor);
  EXPECT_EQ(names_in(folder.path()).size(), 501U);
}

TEST(Output, ManyThreadsWriteOneNameAndOneOfThemWins) {
  const ScratchFolder folder;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&folder, i] {
      write_npy(folder / "a.npy", make_tensor("", ElementType::i32, {500}, std::vector<std::int32_t>(500, i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto values = values_of<std::int32_t>(read_npy(folder / "a.npy"));
  EXPECT_EQ(values, std::vector<std::int32_t>(500, values.at(0)));
  EXPECT_EQ(names_in(folder.path()).size(), 1U);
}

TEST(Sentences, QuoteWhatCannotBePrinted) {
  EXPECT_EQ(files::in_quotes("q"), "\"q\"");
  EXPECT_EQ(files::in_quotes("a\nb\x7F"), "\"a\\x0Ab\\x7F\"");
  EXPECT_EQ(files::in_quotes("größe €😀"), "\"größe €😀\"");
  EXPECT_EQ(files::in_quotes("\xF6\xC0\x80\xED\xA0\x80"), "\"\\xF6\\xC0\\x80\\xED\\xA0\\x80\"");
  EXPECT_EQ(files::in_quotes("\xE2\x82"), "\"\\xE2\\x82\"");
  EXPECT_EQ(files::in_quotes(std::string(81, 'n')), "\"" + std::string(80, 'n') + "...\"");
}

TEST(Input, bytes_in_memory_end_where_they_end) {
  const files::InputFile file("test", "stream", std::vector<std::byte>(8));
  std::vector<std::byte> out(4);
  file.read(4, out);
  for (const std::uint64_t offset : {std::uint64_t{5}, std::uint64_t{8}, std::uint64_t{9}, ~std::uint64_t{0}})
    expect_error("FILE", "stream: has 8 bytes but more are read", [&] { file.read(offset, out); });
}

// ---- the known word that a misspelt one stands for ----

constexpr std::array<std::string_view, 6> models = {"llama", "llama4", "mistral", "qwen3", "qwen3_moe", "gpt2"};

TEST(Nearest, FindsOneSlipInAnyCaseAndTheFirstOfEqualsAndNothingFarAway) {
  const std::pair<std::string, const char*> words[] = {{"lama", "llama"},
                                                       {"lalma", "llama"},  // two letters changed places: one slip
                                                       {"mistrall", "mistral"},
                                                       {"qwen-moe", "qwen3_moe"},
                                                       {"Llama", "llama"},
                                                       {"GPT2", "gpt2"},
                                                       {"llama5", "llama"},
                                                       {"", ""},
                                                       {"l", ""},
                                                       {"gp", ""},  // two letters of three
                                                       {"gemma", ""},
                                                       {std::string(1000, 'l'), ""}};
  for (const auto& [word, wanted] : words) EXPECT_EQ(files::nearest(word, models), wanted) << word;
  EXPECT_EQ(files::nearest("llama", {}), "");
}

TEST(Nearest, CountsLettersAddedRemovedChangedAndSwapped) {
  EXPECT_EQ(files::edit_distance("", "abc"), 3U);
  EXPECT_EQ(files::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(files::edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(files::edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace rotary::test
