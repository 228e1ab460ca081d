// SPDX-License-Identifier: Apache-2.0
//
// What follows from the end of a supervised program, by all sequences that matter.
#include "recover/decision.hpp"

#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <random>

namespace cryo::recover {
namespace {

using Names = std::vector<std::string>;

// Images whose names are their numbers. `made`: how many there have been; 0: so many as the newest
// says.
Offer of(const Names &names, uint64_t made = 0)
{
    Offer offer;
    for (const std::string &name : names)
        offer.images.push_back({.name = name, .made = std::stoull(name)});
    offer.made = made != 0 ? made : offer.images.back().made;
    return offer;
}

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

TEST(Fault, IsAnExitOfALauncherThatThePolicyNamesWhateverItStandsFor)
{
    Policy policy;
    policy.exits = {1, 137};
    policy.signals = {SIGSEGV};
    const Decision decision(policy);
    EXPECT_TRUE(decision.is_fault({.wait_status = SIGHUP, .launcher = exited(1)}));
    EXPECT_TRUE(decision.is_fault({.wait_status = SIGKILL, .launcher = exited(137)}));
    EXPECT_TRUE(decision.is_fault({.wait_status = SIGSEGV, .launcher = exited(139)}));
    EXPECT_FALSE(decision.is_fault({.wait_status = SIGBUS, .launcher = exited(135)}));
    EXPECT_FALSE(decision.is_fault({.wait_status = SIGKILL, .launcher = SIGKILL}));
}

TEST(Fault, IsNoGoodEndThoughNobodyHasToldThatItWasBack)
{
    EXPECT_FALSE(Decision({}).is_fault({.wait_status = exited(0), .was_back = false}));
    EXPECT_FALSE(Decision({}).is_fault(
        {.wait_status = exited(0), .launcher = exited(0), .was_back = false}));
    EXPECT_TRUE(Decision({}).is_fault(
        {.wait_status = exited(3), .launcher = exited(3), .was_back = false}));
}

TEST(Fault, IsALauncherThatLeavesItsRanks)
{
    EXPECT_TRUE(Decision({}).is_fault({.wait_status = exited(255), .left_others = true}));
    EXPECT_FALSE(Decision({}).is_fault(
        {.wait_status = exited(255), .left_others = true, .was_asked = true}));
}

TEST(Fault, IsALauncherThatEndsWellWithoutItsRanks)
{
    End end = {.wait_status = exited(0), .launcher = exited(0), .is_unfinished = true};
    EXPECT_TRUE(Decision({}).is_fault(end));
    end.was_asked = true;
    EXPECT_FALSE(Decision({}).is_fault(end));
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
    EXPECT_EQ(decision.after({.wait_status = exited(3)}, of({"1"})).what, Do::end);
    EXPECT_EQ(decision.after({.wait_status = SIGTERM}, of({"1"})).what, Do::end);
}

TEST(After, AFaultComesTheNewestImage)
{
    Decision decision({});
    const Action next = decision.after({.wait_status = SIGKILL}, of({"1", "2"}));
    EXPECT_EQ(next.what, Do::restart);
    EXPECT_EQ(next.image, "2");
    EXPECT_TRUE(next.abandoned.empty());
}

TEST(After, ProgressIsWithoutLimit)
{
    Decision decision(policy_of(2));
    for (int i = 1; i < 100; i++) {
        const Action next = decision.after({.wait_status = SIGKILL}, of({std::to_string(i)}));
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
                const Action next = decision.after({.wait_status = SIGSEGV}, of(images, 3));
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
        const Action last = decision.after({.wait_status = SIGSEGV}, of(images, 3));
        EXPECT_EQ(last.what, Do::give_up);
        EXPECT_NE(last.why.find("brought back from 1"), std::string::npos) << last.why;
    }
}

TEST(After, ANewImageUnderTheNumberOfAnAbandonedOneIsProgress)
{
    Decision decision(policy_of(1));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "2");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "1");
    Offer there = of({"1", "2"});
    there.images[1].made = there.made = 3;
    const Action next = decision.after({.wait_status = SIGKILL}, there);
    EXPECT_EQ(next.image, "2");
    EXPECT_TRUE(next.abandoned.empty());
}

// A program that always ends at one place, and a keeper that makes images on the way there.
class Loop
{
  public:
    Loop(const Policy &policy, unsigned keep, uint64_t seed)
        : decision_(policy), keep_(keep), random_(seed)
    {}
    // How often it ran until it was given up; `most`: it was not.
    unsigned runs(unsigned most)
    {
        for (unsigned i = 1; i < most; i++) {
            const uint64_t end = 9 + random_() % 3; // its steps are not always equally long
            while (at_ + 1 < end)
                add(++at_);
            const Action next = decision_.after({.wait_status = SIGSEGV}, offer());
            if (next.what == Do::give_up)
                return i;
            for (const std::string &name : next.abandoned) {
                EXPECT_EQ(images_.back().name, name);
                images_.pop_back();
            }
            EXPECT_EQ(images_.back().name, next.image);
            at_ = images_.back().at;
        }
        return most;
    }

  private:
    struct Place {
        std::string name;
        uint64_t made;
        uint64_t at;
    };
    void add(uint64_t at)
    {
        const uint64_t number = images_.empty() ? 1 : std::stoull(images_.back().name) + 1;
        images_.push_back({std::to_string(number), ++made_, at});
        if (images_.size() > keep_ + 1) // the first is what the others are based on
            images_.erase(images_.begin() + 1);
    }
    Offer offer() const
    {
        Offer there;
        for (const Place &one : images_)
            there.images.push_back({.name = one.name, .made = one.made});
        there.made = made_;
        return there;
    }

    Decision decision_;
    unsigned keep_;
    std::mt19937_64 random_;
    std::vector<Place> images_;
    uint64_t made_ = 0;
    uint64_t at_ = 0;
};

TEST(After, ACrashLoopEndsThoughImagesAreMadeInIt)
{
    constexpr unsigned most = 2000;
    for (const unsigned limit : {1U, 3U}) {
        for (const unsigned keep : {1U, 2U, 5U}) {
            for (uint64_t seed = 1; seed <= 50; seed++)
                EXPECT_LT(Loop(policy_of(limit), keep, seed).runs(most), most)
                    << limit << " " << keep << " " << seed;
        }
    }
}

// An image that was made since is progress enough not to be given up, and the count begins anew; to
// be as far as it was, it needs as many as were abandoned.
TEST(After, LostGroundIsRegainedImageByImage)
{
    Decision decision(policy_of(1));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "7", "8"})).image, "8");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "7", "8"})).image, "7");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "7"}, 8)).image, "1");
    for (uint64_t made = 9; made < 14; made++)
        EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", std::to_string(made)})).image,
                  std::to_string(made));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "13"})).what, Do::give_up);
}

TEST(After, WhatHasComeFurtherThanEverMayFallAgain)
{
    Decision decision(policy_of(1));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "2");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "1");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"3", "4"})).image, "4");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"3", "4"})).image, "3");
}

TEST(After, ARestartThatFailsForAnotherReasonCostsNoImage)
{
    Decision decision(policy_of(2));
    const End taken = {.wait_status = exited(EBUSY), .was_back = false, .may_pass = true};
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "2");
    EXPECT_EQ(decision.after(taken, of({"1", "2"})).image, "2");
    const Action last = decision.after(taken, of({"1", "2"}));
    EXPECT_EQ(last.what, Do::give_up);
    EXPECT_TRUE(last.abandoned.empty());
    EXPECT_NE(last.why.find("for a reason outside of the image"), std::string::npos);
}

TEST(MayPass, IsWhatHasNothingToDoWithTheImage)
{
    for (const int error : {EBUSY, EAGAIN, ENOMEM, ENOSPC, EPERM})
        EXPECT_TRUE(may_pass(exited(error))) << error;
    for (const int error : {EBADMSG, EIO, ENOENT, EINVAL, 255})
        EXPECT_FALSE(may_pass(exited(error))) << error;
    EXPECT_FALSE(may_pass(EBUSY)) << "a signal of this number";
}

TEST(After, ItIsNotBegunAgainBesideImagesThatNobodyHasListed)
{
    Decision decision({});
    const Action next = decision.after({.wait_status = SIGKILL}, {.has_others = true});
    EXPECT_EQ(next.what, Do::give_up);
    EXPECT_NE(next.why.find("keeper.json"), std::string::npos);
}

TEST(After, AFaultDuringTheRecoveryCountsAsOne)
{
    Decision decision(policy_of(2));
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1", "2"})).image, "2");
    EXPECT_EQ(decision.after({.wait_status = exited(5), .was_back = false}, of({"1", "2"})).image,
              "2");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL, .was_back = false}, of({"1", "2"})).image,
              "1");
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
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1"})).image, "1");
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1"})).what, Do::give_up);
}

TEST(After, ImagesThatHaveGoneAreNotReplacedByTheBeginning)
{
    Decision decision({});
    EXPECT_EQ(decision.after({.wait_status = SIGKILL}, of({"1"})).image, "1");
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
