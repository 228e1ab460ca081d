// SPDX-License-Identifier: Apache-2.0
//
// Result and Error: values come out unchanged, and texts gain context from the inside out.
#include "base/result.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace {

using cryo::Error;
using cryo::Reason;
using cryo::Result;

TEST(Error, NamesTheThingAndTheCause)
{
    Error error = Error::from_errno("context.412", ENOENT);
    EXPECT_EQ(error.code(), ENOENT);
    EXPECT_EQ(error.text(), "context.412: No such file or directory");
}

TEST(Error, WithinPrefixesAndKeepsTheCode)
{
    Error inner(EIO, "page 7: checksum differs");
    Error outer = inner.within("context.412").within("cr_restart");
    EXPECT_EQ(outer.code(), EIO);
    EXPECT_EQ(outer.text(), "cr_restart: context.412: page 7: checksum differs");
    EXPECT_EQ(inner.text(), "page 7: checksum differs");
}

TEST(Error, HasAReasonThatStaysWithOtherWords)
{
    EXPECT_EQ(Error(EIO, "process 7 has ended").reason(), Reason::other);
    Error inner(ESRCH, "process 7: gone", Reason::has_ended);
    EXPECT_EQ(inner.reason(), Reason::has_ended);
    EXPECT_EQ(inner.within("context.7").within("cr_checkpoint").reason(), Reason::has_ended);
    const Error other = inner.with_text("nobody is there");
    EXPECT_EQ(other.code(), ESRCH);
    EXPECT_EQ(other.text(), "nobody is there");
    EXPECT_EQ(other.reason(), Reason::has_ended);
}

TEST(Error, EndsWithARemark)
{
    const Error plain(EIO, "busy", Reason::has_ended);
    EXPECT_EQ(plain.remark(), "");
    EXPECT_EQ(plain.text_without_remark(), "busy");
    const Error error = plain.with_remark("tried twice").within("context.7");
    EXPECT_EQ(error.code(), EIO);
    EXPECT_EQ(error.reason(), Reason::has_ended);
    EXPECT_EQ(error.text(), "context.7: busy\n  (tried twice)");
    EXPECT_EQ(error.remark(), "tried twice");
    EXPECT_EQ(error.text_without_remark(), "context.7: busy");
    const Error more = error.with_more("; wait");
    EXPECT_EQ(more.text(), "context.7: busy; wait\n  (tried twice)");
    EXPECT_EQ(more.remark(), "tried twice");
    EXPECT_EQ(more.reason(), Reason::has_ended);
    EXPECT_EQ(plain.with_more("; wait").text(), "busy; wait");
    // As when both come from elsewhere.
    EXPECT_EQ(Error(EIO, error.text()).with_remark("tried twice").text(), error.text());
}

Result<int> half(int n)
{
    if (n % 2 != 0)
        return Error(EINVAL, std::to_string(n) + " is odd");
    return n / 2;
}

TEST(Result, HoldsAValue)
{
    Result<int> r = half(8);
    ASSERT_TRUE(r);
    EXPECT_EQ(*r, 4);
    *r = 5;
    EXPECT_EQ(*r, 5);
}

TEST(Result, HoldsAnError)
{
    Result<int> r = half(7);
    ASSERT_FALSE(r);
    EXPECT_EQ(r.error().code(), EINVAL);
    EXPECT_EQ(r.error().text(), "7 is odd");
}

TEST(Result, AFalseValueIsNoError)
{
    EXPECT_TRUE(half(0));
    EXPECT_TRUE(Result<bool>(false));
}

TEST(Result, AnErrorTravelsBetweenTypes)
{
    auto outer = [](int n) -> Result<std::string> {
        Result<int> r = half(n);
        if (!r)
            return r.error().within("halving");
        return std::to_string(*r);
    };
    EXPECT_EQ(*outer(6), "3");
    EXPECT_EQ(outer(9).error().text(), "halving: 9 is odd");
}

TEST(Result, MoveOnlyValuesMoveOut)
{
    Result<std::unique_ptr<int>> r = std::make_unique<int>(42);
    ASSERT_TRUE(r);
    std::unique_ptr<int> owned = *std::move(r);
    EXPECT_EQ(*owned, 42);
}

TEST(Result, MembersAreReachedByArrow)
{
    const Result<std::string> r = std::string("frozen");
    EXPECT_EQ(r->size(), 6U);
}

TEST(Result, WithoutAValue)
{
    Result<void> good;
    Result<void> bad = Error(EBUSY, "in use");
    EXPECT_TRUE(good);
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code(), EBUSY);
}

TEST(Result, TheWrongHalfIsNeverRead)
{
    Result<int> value = 1;
    Result<int> error = Error(EIO, "gone");
    EXPECT_THROW(static_cast<void>(value.error()), std::bad_variant_access);
    EXPECT_THROW(static_cast<void>(*error), std::bad_variant_access);
}

} // namespace
