// SPDX-License-Identifier: Apache-2.0
//
// What follows from the end of a supervised program, by all sequences that matter.
#include "recover/decision.hpp"

#include <csignal>
#include <gtest/gtest.h>

namespace cryo::recover {
namespace {

using Names = std::vector<std::string>;

constexpr int exited(int status)
{
    return status << 8;
}

Policy policy_of(unsigned limit)
{
    Policy policy;
    policy.limit = limit;
    return policy;
}

TEST(Fault, IsAnEndByASignalThatNobodyAskedFor)
{
    const Decision decision({});
    for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
        EXPECT_TRUE(decision.is_fault({.wait_status = signal})) << signal;
        EXPECT_TRUE(decision.is_fault({.wait_status = signal | 0x80})) << "with a core";
        EXPECT_FALSE(decision.is_fault({.wait_status = signal, .was_asked = true})) << signal;
    }
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1})
        EXPECT_FALSE(decision.is_fault({.wait_status = signal})) << signal;
}

TEST(Fault, IsNoExitUnlessThePolicySaysSo)
{
    Policy policy;
    policy.exits = {75};
    for (const int status : {0, 1, 74, 75, 137}) {
        EXPECT_FALSE(Decision({}).is_fault({.wait_status = exited(status)})) << status;
        EXPECT_EQ(Decision(policy).is_fault({.wait_status = exited(status)}), status == 75);
    }
    EXPECT_FALSE(Decision(policy).is_fault({.wait_status = exited(75), .was_asked = true}));
}

TEST(Fault, IsALauncherThatLeavesItsRanks)
{
    EXPECT_TRUE(Decision({}).is_fault({.wait_status = exited(255), .left_others = true}));
    EXPECT_FALSE(Decision({}).is_fault(
        {.wait_status = exited(255), .left_others = true, .was_asked = true}));
}

TEST(Fault, IsARestartThatFails)
{
    EXPECT_TRUE(Decision({}).is_fault({.wait_status = exited(11), .was_back = false}));
    EXPECT_FALSE(
        Decision({}).is_fault({.wait_status = SIGTERM, .was_back = false, .was_asked = true}));
}

TEST(After, AnEndThatIsNoFaultIsTheEnd)
{
    Decision decision({});
    EXPECT_EQ(decision.after({.wait_status = exited(3)}, {"1"}).what, Do::end);
    EXPECT_EQ(decision.after({.wait_status = SIGTERM}, {"1"}).what, Do::end);
}

TEST(After, AFaultComesTheNewestImage)
{
    Decision decision({});
    const Action next = decision.after({.wait_status = SIGKILL}, {"1", "2"});
    EXPECT_EQ(next.what, Do::restart);
    EXPECT_EQ(next.image, "2");
    EXPECT_TRUE(next.abandoned.empty());
}

TEST(After, ProgressIsWithoutLimit)
{
    Decision decision(policy_of(2));
    for (int i = 1; i < 100; i++) {
        const Action next = decision.after({.wait_status = SIGKILL}, {std::to_string(i)});
        ASSERT_EQ(next.what, Do::restart);
        ASSERT_EQ(next.image, std::to_string(i));
    }
}

TEST(After, ACrashLoopFallsToOlderImagesAndEnds)
{
    for (const unsigned limit : {1U, 3U}) {
        Decision decision(policy_of(limit));
        Names images = {"1", "2", "3"};
        while (!images.empty()) {
            for (unsigned i = 0; i < limit; i++) {
                const Action next = decision.after({.wait_status = SIGSEGV}, images);
                ASSERT_EQ(next.what, Do::restart);
                if (!next.abandoned.empty()) { // as the supervisor does it
                    ASSERT_EQ(next.abandoned, Names{images.back()});
                    ASSERT_EQ(i, 0U);
                    images.pop_back();
                }
                ASSERT_EQ(next.image, images.back());
            }
            if (images.size() == 1)
                break;
        }
        const Action last = decision.after({.wait_status = SIGSEGV}, images);
        EXPECT_EQ(last.what, Do::give_up);
        EXPECT_NE(last.why.find("brought back from 1"), std::string::npos) << last.why;
    }
}

TEST(After, ANewImageUnderTheNumberOfAnAbandonedOneIsProgress)
{
    Decision decision(policy_of(1));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1", "2"}).image, "2");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1", "2"}).image, "1");
    const Action next = decision.after({.wait_status = SIGKILL}, {"1", "2"}); // another "2"
    EXPECT_EQ(next.image, "2");
    EXPECT_TRUE(next.abandoned.empty());
}

TEST(After, AFaultDuringTheRecoveryCountsAsOne)
{
    Decision decision(policy_of(2));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1", "2"}).image, "2");
    EXPECT_EQ(decision.after({.wait_status = exited(5), .was_back = false}, {"1", "2"}).image, "2");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL, .was_back = false}, {"1", "2"}).image, "1");
}

TEST(After, WithoutAnImageItIsBegunAgain)
{
    Decision decision(policy_of(2));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {}).what, Do::begin_again);
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {}).what, Do::begin_again);
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {}).what, Do::give_up);
}

TEST(After, WithoutAnImageThePolicyAndTheInputDecide)
{
    Policy policy;
    EXPECT_EQ(Decision(policy).after({.wait_status = SIGKILL, .can_begin_again = false}, {}).what,
              Do::give_up);
    policy.begins_again = false;
    const Action next = Decision(policy).after({.wait_status = SIGKILL}, {});
    EXPECT_EQ(next.what, Do::give_up);
    EXPECT_EQ(next.why, "there is no image yet");
}

TEST(After, TheFirstImageEndsTheCountOfBeginnings)
{
    Decision decision(policy_of(1));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {}).what, Do::begin_again);
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1"}).image, "1");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1"}).what, Do::give_up);
}

TEST(After, ImagesThatHaveGoneAreNotReplacedByTheBeginning)
{
    Decision decision({});
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {"1"}).image, "1");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, {}).what, Do::give_up);
}

TEST(EndText, NamesTheSignalOrTheStatus)
{
    EXPECT_EQ(end_text(SIGKILL), "was killed by SIGKILL");
    EXPECT_EQ(end_text(SIGSEGV | 0x80), "was killed by SIGSEGV");
    EXPECT_EQ(end_text(exited(75)), "ended with status 75");
}

} // namespace
} // namespace cryo::recover
