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

constexpr int64_t now = 1000;
constexpr int64_t unknown = -1;

int64_t gone(const JobNews &news, std::optional<int64_t> daemon_ended = std::nullopt)
{
    const Result<int64_t> gone = news.when_gone(daemon_ended);
    return gone ? *gone : unknown;
}

TEST(JobNews, ARunWithoutADaemonHasNoRanks)
{
    JobNews news;
    news.begin_run(Run::first);
    EXPECT_EQ(gone(news), 0);
    // So nothing has shown that a restart cannot be on the nodes that were chosen for it.
    EXPECT_FALSE(news.has_begun());
    news.take(begun);
    EXPECT_TRUE(news.has_begun());
}

TEST(JobNews, ADaemonThatHasSeenAllOfThemEndIsBelieved)
{
    JobNews news;
    news.begin_run(Run::first);
    EXPECT_FALSE(news.take({{"keeper", 7}}));
    EXPECT_EQ(news.keeper(), 7);
    EXPECT_EQ(gone(news), 0); // no daemon yet
    EXPECT_FALSE(news.take(begun));
    EXPECT_TRUE(news.take(running(true)));
    EXPECT_EQ(gone(news), unknown); // it was killed, or has not ended yet
    EXPECT_FALSE(news.take(ended({})));
    EXPECT_EQ(gone(news), 0);
}

TEST(JobNews, NodesAreNamed)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun);
    news.take(running(true));
    news.take(ended({"n2", "n3"}));
    const Result<int64_t> end = news.when_gone(now);
    ASSERT_FALSE(end);
    EXPECT_NE(end.error().text().find("its ranks on n2, n3"), std::string::npos);
}

TEST(JobNews, RanksThatHaveNotComeMayBeAnywhere)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun);
    news.take(ended({}));
    EXPECT_EQ(gone(news), unknown);
}

TEST(JobNews, WhereAllWereHereNoneIsElsewhere)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun);
    news.take(running(false));
    EXPECT_EQ(gone(news), 0); // also without a daemon's last words
    news.begin_run(Run::first);
    news.take(begun);
    EXPECT_EQ(gone(news), 0); // nor of one to which not all have come back
    news.take(ended({"n2"}));
    EXPECT_EQ(gone(news), unknown);
}

TEST(JobNews, WhatAFalseDaemonSaysIsNotBelieved)
{
    JobNews news;
    news.begin_run(Run::first);
    for (const char *text :
         {R"({"keeper": "7"})", R"({"keeper": [7]})", R"({"running": "true", "elsewhere": 0})",
          R"({"launcher_ended": 1, "outlived": "x"})", R"({"ended": {}, "left": 7})"})
        EXPECT_FALSE(news.take(nlohmann::json::parse(text))) << text;
    EXPECT_EQ(news.keeper(), 0);
    EXPECT_FALSE(news.knows_launchers_end());
    news.take(begun);
    EXPECT_TRUE(news.take({{"running", true}, {"elsewhere", "no"}}));
    EXPECT_EQ(gone(news), unknown);
    for (const char *text : {R"({"ended": true, "left": 7})", R"({"ended": true, "left": [7]})",
                             R"({"ended": true})"}) {
        news.take(nlohmann::json::parse(text));
        EXPECT_EQ(gone(news), unknown) << text;
    }
}

// As when other nodes are chosen for it: what was known of an earlier run says nothing then.
TEST(JobNews, ARunThatHasComeElsewhereIsElsewhere)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun);
    news.take(running(false));
    news.begin_run(Run::first);
    news.take(begun);
    EXPECT_FALSE(news.take({{"elsewhere", true}}));
    EXPECT_EQ(gone(news), unknown); // its daemon was killed
    news.take(ended({}));
    EXPECT_EQ(gone(news), unknown); // not all had come
    news.take(running(false));
    EXPECT_EQ(gone(news), 0);
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
    news.begin_run(Run::first);
    coord::Supervised said(std::move(pipe.write), 0);
    said.elsewhere();
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_EQ(gone(news), unknown); // nor if the daemon is killed now
    said.running(false, false);
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_EQ(gone(news), unknown);
    said.ended({}, 0);
    for (const nlohmann::json &line : report.read())
        news.take(line);
    EXPECT_EQ(gone(news), 0);
}

const nlohmann::json begun_with_leases = {{"begun", true}, {"lease_ns", 20}};

// A run of all ranks, some of them elsewhere, with leases.
JobNews of_several_nodes()
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun_with_leases);
    news.take(running(true));
    return news;
}

TEST(JobNews, ANodeThatIsLostIsGoneWithItsLease)
{
    JobNews news = of_several_nodes();
    EXPECT_TRUE(news.lost().empty());
    news.take({{"lost", "n2"}, {"until_ns", 1015}});
    ASSERT_EQ(news.lost().size(), 1U);
    EXPECT_EQ(news.lost()[0].name, "n2");
    EXPECT_TRUE(news.launcher_left_ranks());
    news.take({{"ended", true}, {"left", nlohmann::json::array()}, {"until_ns", 1015}});
    EXPECT_EQ(gone(news, now), 1015);
}

TEST(JobNews, LeasesEndAfterADaemonThatWasKilled)
{
    const JobNews news = of_several_nodes();
    EXPECT_EQ(gone(news), unknown); // it is there, and may still give leases
    EXPECT_EQ(gone(news, now), now + 20);
}

TEST(JobNews, RanksWithoutALeaseMayGoOn)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun_with_leases);
    news.take({{"running", true}, {"elsewhere", true}, {"unfenced", true}});
    EXPECT_EQ(gone(news, now), unknown);
    news.take(ended({"n1"})); // below no supervisor
    EXPECT_EQ(gone(news, now), unknown);
}

TEST(JobNews, WhatARestartStartsHasALeaseBeforeItActs)
{
    JobNews news = of_several_nodes();
    news.begin_run(Run::first);
    news.take(begun_with_leases);
    EXPECT_EQ(gone(news, now), unknown); // a program does what it likes before MPI_Init
    news.begin_run(Run::restart);
    news.take(begun_with_leases);
    EXPECT_EQ(gone(news, now), now + 20);
    news.take({{"ended", true}, {"left", nlohmann::json::array()}, {"until_ns", 7}});
    EXPECT_EQ(gone(news, now), 7);
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
    coord::Supervised said(std::move(pipe.write), 0);
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
    news.begin_run(Run::first);
    EXPECT_FALSE(news.was_left());
    news.take(begun);
    EXPECT_TRUE(news.was_left()); // if it is not there any more
    news.take({{"launcher_ended", true}, {"outlived", false}});
    EXPECT_FALSE(news.was_left());
}

TEST(JobNews, ALauncherMayLeaveItsRanks)
{
    JobNews news;
    news.begin_run(Run::first);
    EXPECT_FALSE(news.knows_launchers_end());
    news.take(running(false));
    news.take({{"launcher_ended", true}, {"outlived", true}});
    EXPECT_TRUE(news.knows_launchers_end());
    EXPECT_TRUE(news.launcher_left_ranks());
    news.begin_run(Run::first);
    EXPECT_FALSE(news.launcher_left_ranks());
}

nlohmann::json launcher_ended(bool unfinished, bool fault)
{
    return {{"launcher_ended", true},
            {"outlived", false},
            {"unfinished", unfinished},
            {"fault", fault}};
}

TEST(JobNews, RanksMayBeMissingWhenTheLauncherHasEndedWell)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take(begun);
    EXPECT_FALSE(news.knows_ends());
    news.take(launcher_ended(true, true));
    EXPECT_TRUE(news.knows_ends());
    EXPECT_FALSE(news.is_unfinished()); // not all had come
    news.take(running(true));
    EXPECT_TRUE(news.is_unfinished());
    news.begin_run(Run::restart);
    news.take(running(true));
    EXPECT_FALSE(news.is_unfinished());
    EXPECT_FALSE(news.knows_ends());
    news.take(launcher_ended(false, false));
    EXPECT_FALSE(news.is_unfinished());
    news.take({{"launcher_ended", true}, {"outlived", true}});
    EXPECT_TRUE(news.is_unfinished());
    // The first daemon was killed, and with it the ranks of other nodes.
    news.begin_run(Run::first);
    news.take({{"begun", true}, {"lease_ns", 5}});
    news.take(running(true));
    EXPECT_TRUE(news.is_unfinished());
    news.begin_run(Run::first);
    news.take({{"begun", true}, {"lease_ns", 5}});
    news.take(running(false));
    EXPECT_FALSE(news.is_unfinished());
}

TEST(JobNews, AFaultMayHaveComeBeforeTheStatusThatARankHasChosen)
{
    JobNews news;
    news.begin_run(Run::first);
    EXPECT_FALSE(news.saw_fault());
    news.take(launcher_ended(true, true));
    EXPECT_TRUE(news.saw_fault());
    news.begin_run(Run::first);
    EXPECT_FALSE(news.saw_fault());
    news.take(launcher_ended(true, false));
    EXPECT_FALSE(news.saw_fault());
}

TEST(JobNews, WithTheFirstDaemonRanksOfOtherNodesEnd)
{
    JobNews news;
    news.begin_run(Run::first);
    news.take({{"begun", true}, {"lease_ns", 5}});
    EXPECT_FALSE(news.launcher_left_ranks()); // not all have come
    news.take(running(true));
    EXPECT_TRUE(news.launcher_left_ranks());
    news.take({{"launcher_ended", true}, {"outlived", false}}); // so it was there
    EXPECT_FALSE(news.launcher_left_ranks());
    news.begin_run(Run::first);
    news.take({{"begun", true}, {"lease_ns", 5}});
    news.take(running(false));
    EXPECT_FALSE(news.launcher_left_ranks());
}

TEST(JobNews, LossesAreToldInAPlainWay)
{
    const LostNode one = {.name = "n2", .noted_ns = 1'800'000'000'000'000'000};
    EXPECT_EQ(loss_text({one}), "node n2 was lost");
    EXPECT_EQ(loss_text({one, {.name = "n3"}}), "nodes n2, n3 were lost");
    const std::string waited = end_text(one, 3'100'000'000);
    EXPECT_TRUE(waited.starts_with("node n2 was lost at 2027-01-1")) << waited;
    EXPECT_TRUE(waited.ends_with("; after 3.1 s more its ranks are dead")) << waited;
    // The launcher had taken longer to end.
    const std::string already = end_text(one, 0);
    EXPECT_TRUE(already.ends_with("; its ranks are dead")) << already;
    EXPECT_EQ(already.find("after"), std::string::npos) << already;
}

} // namespace
} // namespace cryo::recover
