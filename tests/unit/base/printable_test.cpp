// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <gtest/gtest.h>
#include <random>

using cryo::is_utf8;
using cryo::printable;
using cryo::printable_message;

TEST(Printable, LeavesTextAlone)
{
    EXPECT_EQ("a b/c.1 ü € 漢 😀", printable("a b/c.1 ü € 漢 😀"));
    EXPECT_EQ("", printable(""));
}

TEST(Printable, EscapesWhatTerminalsObey)
{
    EXPECT_EQ("\\x1b]0;title\\x07", printable("\033]0;title\a"));
    EXPECT_EQ("a\\nb\\tc\\x0d\\x7f", printable("a\nb\tc\r\177"));
    EXPECT_EQ("\\x00", printable(std::string_view("\0", 1)));
    EXPECT_EQ("\\u009b31m", printable("\xc2\x9b"
                                      "31m")); // CSI, one of the control characters above ASCII
    EXPECT_EQ("\\u202egpj.exe", printable("\u202egpj.exe"));
    EXPECT_EQ("\\u2028", printable("\u2028"));
}

TEST(Printable, EscapesWhatIsNoUtf8)
{
    EXPECT_EQ("\\x9b31m", printable("\x9b"
                                    "31m")); // CSI as a single byte
    EXPECT_EQ("\\xc0\\x9b", printable("\xc0\x9b"));
    EXPECT_EQ("\\xe2\\x82", printable("\xe2\x82"));
    EXPECT_EQ("\\xed\\xa0\\x80", printable("\xed\xa0\x80"));
    EXPECT_EQ("\\xf4\\x90\\x80\\x80", printable("\xf4\x90\x80\x80"));
    EXPECT_EQ("\\xffx", printable("\xffx"));
}

TEST(Printable, TellsWhatIsUtf8)
{
    EXPECT_TRUE(is_utf8(""));
    EXPECT_TRUE(is_utf8(std::string_view("a\0ü € 😀", 13)));
    for (const char *text : {"caf\xe9", "\xc0\x9b", "\xe2\x82", "\xed\xa0\x80", "ü\xff"})
        EXPECT_FALSE(is_utf8(text)) << printable(text);
}

TEST(Printable, MessagesKeepTheirOwnLines)
{
    EXPECT_EQ("process 1 cannot be saved:\n  file a\n  file b",
              printable_message("process 1 cannot be saved:\n  file a\n  file b"));
    EXPECT_EQ("file a\\ncr_restart: all is well",
              printable_message("file a\ncr_restart: all is well"));
    EXPECT_EQ("\\x1b\n  \\x1b", printable_message("\033\n  \033"));
}

TEST(Printable, NothingGetsThrough)
{
    constexpr int texts = 20'000;
    std::mt19937 random(7);
    for (int i = 0; i < texts; i++) {
        std::string text(random() % 40, 0);
        for (char &c : text)
            c = static_cast<char>(random());
        const std::string out = printable(text);
        EXPECT_EQ(out, printable(out)) << "seed 7, text " << i;
        for (const char c : out)
            ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) << text;
    }
}
