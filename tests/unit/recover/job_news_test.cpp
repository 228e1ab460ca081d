// SPDX-License-Identifier: Apache-2.0
//
// When nothing of a job can be left: what its daemon has told, and what it could not tell.
#include "base/pipe.hpp"
#include "coord/supervised.hpp"
#include "recover/job_news.hpp"
#include "recover/report.hpp"

#include <gtest/gtest.h>

namespace cryo::recover {
namespace {

const nlohmann::json begun = {{"begun", true}};

nlohmann::json running(bool elsewhere)
{
    return {{"running", true}, {"elsewhere", elsewhere}};
}

nlohmann::json ended(const std::vector<std::string> &left)
{
    return {{"ended", true}, {"left", left}};
}

TEST(JobNews, ARunWithoutADaemonHasNoRanks)
{
    JobNews news;
    news.begin_run();
    EXPECT_TRUE(news.check_end());
}

TEST(JobNews, ADaemonThatHasSeenAllOfThemEndIsBelieved)
{
    JobNews news;
    news.begin_run();
    EXPECT_FALSE(news.take({{"keeper", 7}}));
    EXPECT_EQ(news.keeper(), 7);
    EXPECT_TRUE(news.check_end()); // no daemon yet
    EXPECT_FALSE(news.take(begun));
    EXPECT_TRUE(news.take(running(true)));
    EXPECT_FALSE(news.check_end()); // it was killed, or has not ended yet
    EXPECT_FALSE(news.take(ended({})));
    EXPECT_TRUE(news.check_end());
}

TEST(JobNews, NodesAreNamed)
{
    JobNews news;
    news.begin_run();
    news.take(begun);
    news.take(running(true));
    news.take(ended({"n2", "n3"}));
    const Result<void> end = news.check_end();
    ASSERT_FALSE(end);
    EXPECT_NE(end.error().text().find("its ranks on n2, n3"), std::string::npos);
}

TEST(JobNews, RanksThatHaveNotComeMayBeAnywhere)
{
    JobNews news;
    news.begin_run();
    news.take(begun);
    news.take(ended({}));
    EXPECT_FALSE(news.check_end());
}

TEST(JobNews, WhereAllWereHereNoneIsElsewhere)
{
    JobNews news;
    news.begin_run();
    news.take(begun);
    news.take(running(false));
    EXPECT_TRUE(news.check_end()); // also without a daemon's last words
    news.begin_run();
    news.take(begun);
    EXPECT_TRUE(news.check_end()); // nor of one to which not all have come back
    news.take(ended({"n2"}));
    EXPECT_FALSE(news.check_end());
}

TEST(JobNews, WhatAFalseDaemonSaysIsNotBelieved)
{
    JobNews news;
    news.begin_run();
    for (const char *text :
         {R"({"keeper": "7"})", R"({"keeper": [7]})", R"({"running": "true", "elsewhere": 0})",
          R"({"launcher_ended": 1, "outlived": "x"})", R"({"ended": {}, "left": 7})"})
        EXPECT_FALSE(news.take(nlohmann::json::parse(text))) << text;
    EXPECT_EQ(news.keeper(), 0);
    EXPECT_FALSE(news.knows_launchers_end());
    news.take(begun);
    EXPECT_TRUE(news.take({{"running", true}, {"elsewhere", "no"}}));
    EXPECT_FALSE(news.check_end());
    for (const char *text : {R"({"ended": true, "left": 7})", R"({"ended": true, "left": [7]})",
                             R"({"ended": true})"}) {
        news.take(nlohmann::json::parse(text));
        EXPECT_FALSE(news.check_end()) << text;
    }
}

// As when other nodes are chosen for it: what was known of an earlier run says nothing then.
TEST(JobNews, ARunThatHasComeElsewhereIsElsewhere)
{
    JobNews news;
    news.begin_run();
    news.take(begun);
    news.take(running(false));
    news.begin_run();
    news.take(begun);
    EXPECT_FALSE(news.take({{"elsewhere", true}}));
    EXPECT_FALSE(news.check_end()); // its daemon was killed
    news.take(ended({}));
    EXPECT_FALSE(news.check_end()); // not all had come
    news.take(running(false));
    EXPECT_TRUE(news.check_end());
}

// What a job's daemon says is what the supervisor hears.
TEST(JobNews, ADaemonOfOtherNodesSaysSoBeforeAllRanksAreThere)
{
    PipeEnds pipe = std::move(*make_pipe());
    Report report;
    report.begin(std::move(pipe.read));
    JobNews news;
    news.take(begun);
    news.take(running(false));
    news.begin_run();
    coord::Supervised said(std::move(pipe.write));
    said.elsewhere();
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_FALSE(news.check_end()); // nor if the daemon is killed now
    said.running(false);
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_FALSE(news.check_end());
    said.ended({});
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_TRUE(news.check_end());
}

TEST(JobNews, ADaemonThatIsAtWorkIsNotSilent)
{
    constexpr uint64_t second = 1'000'000'000;
    PipeEnds pipe = std::move(*make_pipe());
    Report report;
    report.begin(std::move(pipe.read));
    JobNews news;
    EXPECT_FALSE(news.is_silent(1000 * second, 1000 * second));
    EXPECT_FALSE(news.is_silent(1000 * second, 1059 * second));
    EXPECT_TRUE(news.is_silent(1000 * second, 1060 * second));
    coord::Supervised said(std::move(pipe.write));
    report.read();
    said.saving(); // of a checkpoint that ends when the ranks have long ended
    EXPECT_EQ(report.read().size(), 1U);
    news.heard(1050 * second);
    EXPECT_FALSE(news.is_silent(1000 * second, 1100 * second));
    EXPECT_TRUE(news.is_silent(1000 * second, 1110 * second));
}

TEST(JobNews, ADaemonMayLeaveTheJob)
{
    JobNews news;
    news.begin_run();
    EXPECT_FALSE(news.was_left());
    news.take(begun);
    EXPECT_TRUE(news.was_left()); // if it is not there any more
    news.take({{"launcher_ended", true}, {"outlived", false}});
    EXPECT_FALSE(news.was_left());
}

TEST(JobNews, ALauncherMayLeaveItsRanks)
{
    JobNews news;
    news.begin_run();
    EXPECT_FALSE(news.knows_launchers_end());
    news.take({{"launcher_ended", true}, {"outlived", true}});
    EXPECT_TRUE(news.knows_launchers_end());
    EXPECT_TRUE(news.launcher_left_ranks());
    news.begin_run();
    EXPECT_FALSE(news.launcher_left_ranks());
}

} // namespace
} // namespace cryo::recover
