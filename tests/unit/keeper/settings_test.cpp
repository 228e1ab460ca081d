// SPDX-License-Identifier: Apache-2.0
//
// The meaning of the options of automatic checkpoints.
#include <gtest/gtest.h>

#include "keeper/settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <time.h>
#include <unistd.h>

namespace cryo::keeper {
namespace {

class Options : public ::testing::Test
{
  protected:
    Options()
    {
        char name[] = "/tmp/cryo-settings.XXXXXX";
        directory_ = mkdtemp(name);
    }
    ~Options() override { std::filesystem::remove_all(directory_); }

    Result<Settings> parse(std::vector<std::string> words)
    {
        CLI::App app;
        Settings settings;
        add_options(app, settings);
        std::reverse(words.begin(), words.end());
        try {
            app.parse(words);
        } catch (const CLI::ParseError &error) {
            return Error(EINVAL, error.what());
        }
        Result<void> good = complete(settings, directory_ + "/default");
        if (!good)
            return good.error();
        return settings;
    }

    std::string directory_;
};

TEST_F(Options, Times)
{
    EXPECT_EQ(*duration("90"), 90);
    EXPECT_EQ(*duration("90s"), 90);
    EXPECT_EQ(*duration("1.5m"), 90);
    EXPECT_EQ(*duration("2h"), 7200);
    EXPECT_EQ(*duration("1d"), 86400);
    EXPECT_EQ(*duration("500ms"), 0.5);
    for (const char *wrong : {"", "s", "-1s", "0", "1x", "1 2", "nan", "auto"})
        EXPECT_FALSE(duration(wrong)) << wrong;
}

TEST_F(Options, Defaults)
{
    const Result<Settings> settings = parse({"--interval", "5m"});
    ASSERT_TRUE(settings) << settings.error().text();
    EXPECT_EQ(settings->interval_s, 300);
    EXPECT_EQ(settings->directory, std::filesystem::canonical(directory_) / "default");
    EXPECT_EQ(settings->keep, 2u);
    EXPECT_EQ(settings->max_overhead, 0);
    EXPECT_EQ(settings->deadline, 0);
}

TEST_F(Options, All)
{
    const Result<Settings> settings =
        parse({"--interval=auto", "--into", directory_ + "/one", "--second", directory_ + "/two",
               "--bandwidth=100M", "--keep=5", "--failure-interval=12h", "--before-deadline=1h"});
    ASSERT_TRUE(settings) << settings.error().text();
    EXPECT_EQ(settings->interval_s, 0);
    EXPECT_EQ(settings->max_overhead, 1); // the default with auto
    EXPECT_EQ(settings->bandwidth, 100u << 20);
    EXPECT_EQ(settings->keep, 5u);
    EXPECT_EQ(settings->failure_interval, 43200);
    EXPECT_NEAR(settings->deadline, static_cast<double>(time(nullptr)) + 3600, 5);
    EXPECT_EQ(parse({"--interval=1s", "--max-overhead=2.5%"})->max_overhead, 2.5);
}

TEST_F(Options, AsWordsOfACommandLineAreTheSame)
{
    for (const std::vector<std::string> &words :
         {std::vector<std::string>{"--interval=5m"},
          std::vector<std::string>{"--interval=auto", "--into", directory_ + "/one", "--second",
                                   directory_ + "/two", "--bandwidth=100M", "--keep=5",
                                   "--failure-interval=12h", "--before-deadline=1h",
                                   "--max-overhead=2.5%", "--metrics", directory_, "--delta=none",
                                   "--compress=always"}}) {
        const Result<Settings> settings = parse(words);
        ASSERT_TRUE(settings) << settings.error().text();
        const Result<Settings> again = parse(words_of(*settings));
        ASSERT_TRUE(again) << again.error().text();
        nlohmann::json first = *settings;
        nlohmann::json second = *again;
        for (const char *name : {"before", "made_directory", "made_second"}) {
            first.erase(name);
            second.erase(name);
        }
        EXPECT_EQ(first, second);
    }
}

TEST_F(Options, DeadlineOfTheBatchSystem)
{
    unsetenv("SLURM_JOB_END_TIME");
    unsetenv("SLURM_JOB_ID");
    EXPECT_FALSE(parse({"--interval=1h", "--before-deadline=auto"}));
    setenv("SLURM_JOB_END_TIME", "1900000000", 1);
    EXPECT_EQ(parse({"--interval=1h", "--before-deadline=auto"})->deadline, 1.9e9);
    unsetenv("SLURM_JOB_END_TIME");
    EXPECT_EQ(parse({"--interval=1h", "--before-deadline=@1900000001.5"})->deadline, 1900000001.5);
    EXPECT_FALSE(parse({"--interval=1h", "--before-deadline=@soon"}));
}

// A job of a batch system that does not answer starts all the same.
TEST_F(Options, DeadlineThatSlurmDoesNotTell)
{
    const char *present = getenv("PATH");
    const std::string path = present != nullptr ? present : "";
    unsetenv("SLURM_JOB_END_TIME");
    setenv("PATH", directory_.c_str(), 1);
    for (const char *job : {"77", "77; true", ""}) {
        setenv("SLURM_JOB_ID", job, 1);
        const Result<Settings> settings = parse({"--interval=1h", "--before-deadline=auto"});
        ASSERT_TRUE(settings) << settings.error().text();
        EXPECT_EQ(settings->deadline, 0);
        ASSERT_EQ(settings->notices.size(), 1u);
        EXPECT_NE(settings->notices.front().find("Slurm does not tell"), std::string::npos);
    }
    unsetenv("SLURM_JOB_ID");
    setenv("PATH", path.c_str(), 1);
}

TEST_F(Options, Refused)
{
    EXPECT_FALSE(parse({"--into", directory_}));              // needs --interval
    EXPECT_FALSE(parse({"--interval=1s", "--bandwidth=1M"})); // needs --second
    EXPECT_FALSE(parse({"--interval=often"}));
    EXPECT_FALSE(parse({"--interval=1s", "--keep=0"}));
    EXPECT_FALSE(parse({"--interval=1s", "--max-overhead=0"}));
    EXPECT_FALSE(parse({"--interval=1s", "--into", "/dev/null"}));
    EXPECT_FALSE(parse({"--interval=1s", "--into", directory_, "--second", directory_ + "/."}));
}

} // namespace
} // namespace cryo::keeper
