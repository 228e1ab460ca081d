// SPDX-License-Identifier: Apache-2.0
//
// The command line of a launcher, with what Cryo adds to it and without.
#include "coord/launcher_words.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

using cryo::coord::before_restart;
using cryo::coord::without_exports;
using Words = std::vector<std::string>;

TEST(Launch, TheUsersOwnWordsRemain)
{
    const Words plain = {"mpirun", "-x", "PATH", "-n", "4", "./app", "-x", "LD_PRELOAD"};
    EXPECT_EQ(without_exports(plain), plain);
    EXPECT_EQ(without_exports({"nice", "mpirun", "-x", "CRYO_JOB", "-x", "CRYO_DAEMON", "-x",
                               "LD_PRELOAD", "-x", "PATH", "-n", "4", "./app", "-x", "LD_PRELOAD"}),
              Words({"nice", "mpirun", "-x", "PATH", "-n", "4", "./app", "-x", "LD_PRELOAD"}));
    EXPECT_EQ(without_exports(
                  {"mpirun", "-x", "CRYO_JOB", "-x", "LD_PRELOAD", "-x", "LD_PRELOAD", "./app"}),
              Words({"mpirun", "-x", "LD_PRELOAD", "./app"}));
    EXPECT_EQ(without_exports({"mpirun", "-x", "CRYO_JOB", "-x"}), Words({"mpirun", "-x"}));
    EXPECT_EQ(without_exports({}), Words());
}

TEST(Launch, WhatBringsRanksBackIsNoneOfTheUsersWords)
{
    EXPECT_FALSE(before_restart({"mpirun", "-n", "4", "./app"}));
    EXPECT_EQ(before_restart({"mpirun", "--oversubscribe", "-n", "4", "/opt/bin/opal-restart", "-l",
                              "/ckpt/3"}),
              Words({"mpirun", "--oversubscribe", "-n", "4"}));
    EXPECT_EQ(before_restart({"mpiexec", "-pmi-port", "-n", "4", "opal-restart", "-l", "/ckpt/3"}),
              Words({"mpiexec", "-n", "4"}));
}
