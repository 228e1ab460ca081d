// SPDX-License-Identifier: Apache-2.0
//
// Which signals announce the end of a supervised program, and until when.
#include "recover/wishes.hpp"

#include <csignal>
#include <gtest/gtest.h>

namespace cryo::recover {
namespace {

TEST(Wishes, ForTheEndAreThree)
{
    for (const int signal : {SIGTERM, SIGINT, SIGQUIT}) {
        Wishes wishes;
        wishes.sent(signal, true);
        EXPECT_EQ(wishes.end(), signal);
    }
    Wishes wishes;
    for (const int signal : {SIGHUP, SIGUSR1, SIGABRT, SIGWINCH, SIGRTMIN}) {
        wishes.sent(signal, true);
        EXPECT_TRUE(wishes.had(signal));
        EXPECT_EQ(wishes.end(), 0);
    }
    EXPECT_FALSE(wishes.had(SIGTERM));
}

// The first one may have been begun before the signal: then it shows nothing.
TEST(Wishes, AreForgottenWithTheSecondImage)
{
    Wishes wishes;
    wishes.image_came();
    wishes.sent(SIGTERM, true);
    wishes.image_came();
    EXPECT_EQ(wishes.end(), SIGTERM);
    EXPECT_TRUE(wishes.had(SIGTERM));
    wishes.image_came();
    EXPECT_EQ(wishes.end(), 0);
    EXPECT_FALSE(wishes.had(SIGTERM));
}

TEST(Wishes, ThatAreRepeatedBeginAnew)
{
    Wishes wishes;
    wishes.sent(SIGTERM, true);
    wishes.image_came();
    wishes.sent(SIGTERM, true);
    wishes.image_came();
    EXPECT_EQ(wishes.end(), SIGTERM);
}

TEST(Wishes, AreNoneWhereTheSignalIsIgnored)
{
    const auto before = signal(SIGINT, SIG_IGN);
    Wishes wishes(Wishes::ignored());
    signal(SIGINT, before);
    wishes.sent(SIGINT, true);
    EXPECT_EQ(wishes.end(), 0);
    wishes.sent(SIGTERM, true);
    EXPECT_EQ(wishes.end(), SIGTERM);
}

TEST(Wishes, AHangUpIsTheEndWhereNobodyTakesIt)
{
    Wishes wishes;
    wishes.sent(SIGHUP, false);
    EXPECT_EQ(wishes.end(), SIGHUP);
    Wishes of_nohup({SIGHUP});
    of_nohup.sent(SIGHUP, false);
    EXPECT_EQ(of_nohup.end(), 0);
}

} // namespace
} // namespace cryo::recover
