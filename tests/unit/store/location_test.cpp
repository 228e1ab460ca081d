// SPDX-License-Identifier: Apache-2.0
#include "store/location.hpp"

#include "store/contents.hpp"

#include <gtest/gtest.h>

namespace cryo::store {

namespace {

TEST(Location, Parts)
{
    const Result<Location> place = Location::parse("s3://check-points.7/run/context.412/");
    ASSERT_TRUE(place);
    EXPECT_EQ("check-points.7", place->bucket);
    EXPECT_EQ("run/context.412", place->key);
    EXPECT_EQ("s3://check-points.7/run/context.412", place->text());
    EXPECT_EQ("run/context.412/files/x", place->within("files/x").key);
    EXPECT_EQ("/check-points.7/run/context.412", place->path());
}

TEST(Location, Bucket)
{
    for (const char *text : {"s3://abc", "s3://abc/"}) {
        const Result<Location> place = Location::parse(text);
        ASSERT_TRUE(place);
        EXPECT_EQ("", place->key);
        EXPECT_EQ("s3://abc", place->text());
        EXPECT_EQ("x", place->within("x").key);
        EXPECT_EQ("/abc", place->path());
    }
}

TEST(Location, Encoded)
{
    const Result<Location> place = Location::parse("s3://abc/a b/ä+%?#&=~");
    ASSERT_TRUE(place);
    EXPECT_EQ("/abc/a%20b/%C3%A4%2B%25%3F%23%26%3D~", place->path());
    EXPECT_EQ("a%2Fb", encode("a/b"));
}

TEST(Location, Refused)
{
    for (const std::string text :
         {"", "context.412", "s3:/abc/x", "http://abc/x", "s3://", "s3:///x", "s3://ab/x",
          "s3://Abc/x", "s3://a_b/x", "s3://-abc/x", "s3://abc-/x", "s3://a..b/x", "s3://abc//x",
          "s3://abc/x//y", "s3://abc/./x", "s3://abc/../x", "s3://abc/x/..", "s3://abc/\xff"}) {
        const Result<Location> place = Location::parse(text);
        ASSERT_FALSE(place) << text;
        EXPECT_EQ(EINVAL, place.error().code());
    }
    EXPECT_FALSE(Location::parse("s3://abc/" + std::string(901, 'x')));
    EXPECT_TRUE(Location::parse("s3://abc/" + std::string(900, 'x')));
}

TEST(Names, LeadBelow)
{
    for (const char *name : {"a", "a/b", "..a", "a../b", ".hidden", "ä"})
        EXPECT_TRUE(is_safe_name(name)) << name;
    for (const std::string name :
         {"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "\xff"})
        EXPECT_FALSE(is_safe_name(name)) << name;
    EXPECT_FALSE(is_safe_name(std::string_view("a\0b", 3)));
    EXPECT_FALSE(is_safe_name(std::string(256, 'x')));
}

} // namespace

} // namespace cryo::store
