// SPDX-License-Identifier: Apache-2.0
//
// libcr.h: the numbers are BLCR's, every error has its own text.
#include "cryo_placement.h"
#include "libcr.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <gtest/gtest.h>
#include <initializer_list>
#include <set>
#include <string>

namespace {

TEST(Libcr, NumbersAreThoseOfBlcr)
{
    const int blcr[] = {CR_ETEMPFAIL,  CR_EPERMFAIL,  CR_ENOSUPPORT, CR_EVERSION,
                        CR_EOMITTED,   CR_EBADARCH,   CR_EPTRACED,   CR_EPTRACER,
                        CR_ERSTRTABRT, CR_ERESTARTED, CR_ENOTCB,     CR_ENOINIT};
    int expected = 2354;
    for (int code : blcr)
        EXPECT_EQ(code, expected++);
    EXPECT_EQ(CR_ETEMPFAIL & 0xff, 50);
    EXPECT_EQ(CR_ENOINIT & 0xff, 61);
}

TEST(Libcr, EveryCodeHasItsOwnText)
{
    std::set<std::string> seen;
    for (int code = CR_MIN_ERRCODE + 1; code < CR_MAX_ERRCODE; code++) {
        const char *text = cr_strerror(code);
        ASSERT_NE(text, nullptr) << code;
        EXPECT_NE(*text, '\0') << code;
        EXPECT_EQ(std::strchr(text, '\n'), nullptr) << code;
        EXPECT_NE(std::strncmp(text, "Unknown", 7), 0) << code;
        EXPECT_TRUE(seen.insert(text).second) << code << " shares its text: " << text;
    }
    EXPECT_EQ(seen.size(), 12U);
}

TEST(Libcr, OtherNumbersAreThoseOfErrno)
{
    for (int number :
         std::initializer_list<int>{0, EPERM, ENOENT, ESRCH, EOWNERDEAD, CR_MIN_ERRCODE,
                                    CR_MAX_ERRCODE, -1, -CR_ETEMPFAIL, INT_MAX, INT_MIN}) {
        std::string expected = std::strerror(number);
        EXPECT_EQ(cr_strerror(number), expected);
    }
}

TEST(Libcr, ErrnoIsLeftAlone)
{
    for (int number : std::initializer_list<int>{ENOENT, CR_ENOINIT, INT_MIN}) {
        errno = EXDEV;
        ASSERT_NE(cr_strerror(number), nullptr);
        EXPECT_EQ(errno, EXDEV) << number;
    }
}

TEST(Libcr, VersionIsThatOfTheBuild)
{
    EXPECT_STREQ(cr_version_string(), CRYO_VERSION);
}

TEST(Libcr, APlacementIsToldToRanksOnly)
{
    cryo_placement placement = {};
    EXPECT_EQ(cr_placement(&placement), -1);
    EXPECT_EQ(errno, EINVAL);
    placement.size = sizeof(placement);
    EXPECT_EQ(cr_placement(&placement), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(cr_placement(nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
