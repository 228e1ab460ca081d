// SPDX-License-Identifier: Apache-2.0
//
// What --help says of flags.
#include "cli/command.hpp"

#include <gtest/gtest.h>
#include <string>

namespace {

bool has(const std::string &text, const char *what)
{
    return text.find(what) != std::string::npos;
}

} // namespace

TEST(Help, NamesOnlyWhatTurnsAFlagOff)
{
    CLI::App app("Saves.", "save");
    bool nosync = false;
    std::string delta;
    app.add_flag("--nosync,!--sync", nosync, "Do not wait");
    app.add_flag("--delta{auto}", delta, "Leave out what is there");
    cryo::cli::use_help(app, "");
    const std::string help = app.help();
    EXPECT_TRUE(has(help, "Do not wait (--sync: not so)")) << help;
    EXPECT_FALSE(has(help, "(--delta")) << help;
}
