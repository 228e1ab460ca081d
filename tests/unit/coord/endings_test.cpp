// SPDX-License-Identifier: Apache-2.0
//
// Whether a job has done its part, and if not, whether a fault came first; and how a rank tells of
// its end.
#include "coord/endings.hpp"

#include "base/fd.hpp"
#include "coord/frame.hpp"
#include "coord/job.hpp"
#include "coord/rank_end.hpp"

#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../scratch.hpp"

namespace cryo::coord {
namespace {

Endings of_a_whole_job()
{
    Endings endings;
    endings.comes(true);
    endings.comes(false);
    endings.all_have_come();
    return endings;
}

TEST(Endings, AreWellIfAllHaveSaidSo)
{
    Endings endings = of_a_whole_job();
    endings.gone(0, true);
    endings.gone(1, true);
    endings.launcher_ended();
    EXPECT_FALSE(endings.are_unfinished());
    EXPECT_FALSE(endings.is_fault());
}

TEST(Endings, WithoutAWordAreAFault)
{
    Endings endings = of_a_whole_job();
    endings.gone(1, false);
    EXPECT_TRUE(endings.is_decided());
    EXPECT_TRUE(endings.is_fault());
    EXPECT_TRUE(endings.are_unfinished());
    EXPECT_TRUE(endings.gives_up(0)); // for that: it need not wait
    endings.gone(0, false);
    endings.launcher_ended();
    EXPECT_TRUE(endings.is_fault());
}

// The news of the other one's end may come later than its consequence.
TEST(Endings, WithoutAWordAreAFaultIfAnotherOneWaitsForThem)
{
    Endings endings = of_a_whole_job();
    EXPECT_FALSE(endings.gives_up(0));
    EXPECT_FALSE(endings.is_decided());
    endings.gone(1, false);
    EXPECT_TRUE(endings.is_decided());
    EXPECT_TRUE(endings.is_fault());
}

TEST(Endings, ThatALibraryBringsAboutAreNoFaultByThemselves)
{
    Endings endings = of_a_whole_job();
    EXPECT_FALSE(endings.gives_up(0));
    endings.let_go();
    endings.gone(1, false); // the launcher has ended it
    endings.gone(0, false);
    EXPECT_FALSE(endings.is_fault());
    EXPECT_TRUE(endings.are_unfinished());
}

// One that is killed while it waits has given up before, whoever kills it.
TEST(Endings, OfOneThatHasGivenUpAreNoFault)
{
    Endings endings = of_a_whole_job();
    EXPECT_FALSE(endings.gives_up(0));
    endings.gone(0, false);
    EXPECT_FALSE(endings.is_fault());
}

TEST(Endings, ThatTheProgramHasChosenAreNoFault)
{
    Endings endings = of_a_whole_job();
    EXPECT_TRUE(endings.ends(0));
    endings.gone(1, false);
    EXPECT_TRUE(endings.gives_up(2));
    EXPECT_FALSE(endings.is_fault());
}

TEST(Endings, ThatTheProgramHasChosenAfterAFaultAreItsConsequence)
{
    Endings endings = of_a_whole_job();
    endings.gone(1, false);
    EXPECT_TRUE(endings.ends(0));
    EXPECT_TRUE(endings.is_fault());
}

TEST(Endings, AfterTheLaunchersAreItsDoing)
{
    Endings endings = of_a_whole_job();
    endings.launcher_ended();
    endings.gone(1, false);
    EXPECT_FALSE(endings.is_fault());
    EXPECT_TRUE(endings.are_unfinished());
}

TEST(Endings, ThatAreWantedLeaveNothingUnfinished)
{
    Endings endings = of_a_whole_job();
    endings.are_wanted();
    endings.gone(0, false);
    endings.gone(1, false);
    endings.launcher_ended();
    EXPECT_FALSE(endings.are_unfinished());
    EXPECT_FALSE(endings.is_fault());
}

TEST(Endings, BeginAnewWithTheNextMpirun)
{
    Endings endings = of_a_whole_job();
    endings.gone(0, false);
    endings.gone(1, false);
    endings.comes(true);
    EXPECT_FALSE(endings.are_unfinished());
    EXPECT_FALSE(endings.is_fault());
    // But not with the next rank of one of which not all have come.
    endings.gone(0, false);
    endings.comes(true);
    EXPECT_TRUE(endings.are_unfinished());
}

// The place of a daemon, and the environment of its ranks.
struct Node {
    Scratch scratch;
    std::string job = "1-2";
    std::string variables[3] = {"CRYO_JOB=" + job + ":00:1:127.0.0.1",
                                "CRYO_RUNTIME_DIR=" + scratch.path().string(), "CRYO_NODE=n1"};
    const char *const environment[5] = {variables[0].c_str(), variables[1].c_str(),
                                        variables[2].c_str(), "CRYO_FENCED=1", nullptr};
    const char *const unsupervised[4] = {variables[0].c_str(), variables[1].c_str(),
                                         variables[2].c_str(), nullptr};
    Fd listener;

    Node()
    {
        std::filesystem::create_directory(scratch.path().string() + "/" + job);
        Result<Fd> socket = listen_at(scratch.path().string() + "/" + job + "/n1");
        EXPECT_TRUE(socket);
        if (socket)
            listener = std::move(*socket);
    }
    bool is_asked() const
    {
        pollfd look = {listener.get(), POLLIN, 0};
        return poll(&look, 1, 0) == 1;
    }
};

// In a child, to which `answer` answers.
template <class Rank, class Answer>
int status_of(const Rank &rank, const Answer &answer)
{
    const pid_t child = fork();
    if (child == 0) {
        rank();
        _exit(7);
    }
    answer();
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(RankEnd, IsToldOnceAndWaitsForTheAnswer)
{
    const Node node;
    const auto rank = [&] {
        expect_end(node.environment);
        tell_end(Ending::given_up);
        tell_end(Ending::by_itself);
    };
    const auto answer = [&] {
        const Fd one(accept4(node.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        char frame[64];
        EXPECT_EQ(recv(one.get(), frame, sizeof(frame), 0), 9);
        FrameHeader header;
        memcpy(&header, frame, sizeof(header));
        EXPECT_EQ(header.kind, FrameKind::ending);
        EXPECT_EQ(header.length, 1U);
        EXPECT_EQ(frame[sizeof(header)], static_cast<char>(Ending::given_up));
        pollfd gone = {one.get(), POLLIN, 0};
        EXPECT_EQ(poll(&gone, 1, 50), 0) << "it has not waited";
    };
    EXPECT_EQ(status_of(rank, answer), 7);
    EXPECT_FALSE(node.is_asked());
}

TEST(RankEnd, IsToldByTheRankInASupervisedJobAlone)
{
    const Node node;
    EXPECT_EQ(status_of(
                  [&] {
                      expect_end(node.unsupervised);
                      tell_end(Ending::by_itself);
                  },
                  [] {}),
              7);
    expect_end(node.environment);
    EXPECT_EQ(status_of([] { tell_end(Ending::by_itself); }, [] {}), 7); // a child by fork()
    EXPECT_FALSE(node.is_asked());
    forget_end();
    tell_end(Ending::by_itself);
    EXPECT_FALSE(node.is_asked());
}

TEST(RankEnd, WaitsForNoDaemonThatIsGone)
{
    Node node;
    node.listener.reset();
    expect_end(node.environment);
    tell_end(Ending::by_itself);
    forget_end();
}

} // namespace
} // namespace cryo::coord
