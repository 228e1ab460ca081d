// SPDX-License-Identifier: Apache-2.0
//
// The command line of a launcher, with what Cryo adds to it and without.
#include "coord/launch.hpp"

#include <gtest/gtest.h>
#include <string>
#include <vector>

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
