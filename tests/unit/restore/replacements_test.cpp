// SPDX-License-Identifier: Apache-2.0
// Directories that were made for files are removed with them, but not while the program runs.
#include "restore/planner.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

namespace {

namespace fs = std::filesystem;

std::string empty_directory()
{
    std::string made = fs::temp_directory_path() / "cryo-replacements.XXXXXX";
    EXPECT_NE(nullptr, mkdtemp(made.data()));
    return made;
}

TEST(Replacements, LeaveNoDirectoryOfARestartThatFails)
{
    const std::string made = empty_directory();
    {
        cryo::restore::Replacements all;
        all.add_directory(made);
    }
    EXPECT_FALSE(fs::exists(made));
}

TEST(Replacements, LeaveTheDirectoryToAProgramThatHasEmptiedIt)
{
    const std::string made = empty_directory();
    {
        cryo::restore::Replacements all;
        all.add_directory(made);
        all.keep_directories();
    }
    EXPECT_TRUE(fs::exists(made));
    fs::remove(made);
}

} // namespace
