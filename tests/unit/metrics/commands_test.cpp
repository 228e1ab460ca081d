// SPDX-License-Identifier: Apache-2.0
// What commands have done, counted in a file: by many at once, and in one's own directory only.
#include "metrics/commands.hpp"

#include "../scratch.hpp"
#include "base/contents.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::metrics {

namespace {

namespace fs = std::filesystem;

class CommandsTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0);
        ASSERT_EQ(setenv("CRYO_METRICS", dir_.path().c_str(), 1), 0);
    }
    void TearDown() override { unsetenv("CRYO_METRICS"); }
    std::string file() const { return dir_ / commands_file; }
    static Result<void> count(const char *command, const Done &what)
    {
        const Result<CommandCount> counter = CommandCount::from_environment(command);
        return counter ? counter->add(what) : counter.error();
    }
    Commands counted() const
    {
        const Result<std::string> text = contents(file());
        EXPECT_TRUE(text);
        const Result<Commands> commands = parse_commands(text ? *text : "");
        EXPECT_TRUE(commands) << commands.error().text();
        return commands ? *commands : Commands();
    }

    Scratch dir_;
};

TEST_F(CommandsTest, Counts)
{
    ASSERT_TRUE(count("cr_checkpoint", {.stopped_s = 0.25, .bytes = 4096}));
    ASSERT_TRUE(count("cr_checkpoint", {.stopped_s = 0.5, .bytes = 1}));
    ASSERT_TRUE(count("cr_checkpoint", {.good = false}));
    ASSERT_TRUE(count("cr_restart", {}));
    Commands commands = counted();
    const auto &saved = commands["cr_checkpoint"];
    EXPECT_EQ(saved[runs], 2);
    EXPECT_EQ(saved[run_failures], 1);
    EXPECT_EQ(saved[run_stopped], 0.75);
    EXPECT_EQ(saved[run_bytes], 4097);
    EXPECT_GT(saved[run_at], 1.7e9);
    EXPECT_EQ(commands["cr_restart"][runs], 1);
    struct stat status = {};
    ASSERT_EQ(lstat(file().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, mode_t(S_IFREG | 0644));
}

TEST_F(CommandsTest, ManyAtOnce)
{
    constexpr int processes = 8;
    constexpr int each = 20;
    for (int i = 0; i < processes; i++) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            bool good = true;
            for (int n = 0; n < each; n++)
                good = good && count("ompi-checkpoint", {.bytes = 10});
            _exit(good ? 0 : 1);
        }
    }
    for (int i = 0; i < processes; i++) {
        int status = 0;
        ASSERT_GT(wait(&status), 0);
        EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(counted()["ompi-checkpoint"][runs], processes * each);
    EXPECT_EQ(counted()["ompi-checkpoint"][run_bytes], processes * each * 10);
}

TEST_F(CommandsTest, NothingWithoutTheVariable)
{
    for (const char *value : {"", static_cast<const char *>(nullptr)}) {
        if (value != nullptr)
            setenv("CRYO_METRICS", value, 1);
        else
            unsetenv("CRYO_METRICS");
        EXPECT_TRUE(count("cr_restart", {}));
    }
    EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_F(CommandsTest, WhatOthersMayWrite)
{
    ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
    const Result<void> refused = count("cr_restart", {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EACCES);
    EXPECT_EQ(refused.error().text().find("CRYO_METRICS: "), 0U) << refused.error().text();
    EXPECT_TRUE(fs::is_empty(dir_.path()));
}

// An unreadable count is not taken for none, and stays.
TEST_F(CommandsTest, FileThatIsNotOurs)
{
    std::ofstream(file()) << "precious\n";
    const Result<void> refused = count("cr_restart", {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EBADMSG);
    const Result<std::string> text = contents(file());
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, "precious\n");
    fs::remove(file());
    fs::create_symlink("elsewhere", file());
    EXPECT_FALSE(count("cr_restart", {}));
    EXPECT_FALSE(fs::exists(dir_ / "elsewhere"));
}

TEST_F(CommandsTest, OtherTextIsRefused)
{
    const std::string good = "cryo_command_runs_total{command=\"cr_restart\"} 1\n";
    ASSERT_TRUE(parse_commands(good));
    for (const std::string &text :
         {good + good, std::string("cryo_command_runs_total{command=\"rm\"} 1\n"),
          std::string("cryo_command_runs_total{command=\"cr_restart\",user=\"root\"} 1\n"),
          std::string("cryo_command_runs_total{pid=\"1\"} 1\n"), std::string("\n")})
        EXPECT_FALSE(parse_commands(text)) << text;
}

} // namespace

} // namespace cryo::metrics
