// SPDX-License-Identifier: Apache-2.0
#include "server/url.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace cryo::server {

TEST(Url, NamesAServerAndAnImage)
{
    const Result<Url> url = Url::parse("cryo://n7.site:99/solver/context.000003");
    ASSERT_TRUE(url);
    EXPECT_EQ("n7.site", url->at.host);
    EXPECT_EQ(99, url->at.port);
    EXPECT_EQ("solver", url->image.series);
    EXPECT_EQ("context.000003", url->image.name);
    EXPECT_EQ("cryo://n7.site:99/solver/context.000003", url->text());
}

TEST(Url, HasAUsualPortAndNeedsNoSeries)
{
    const Result<Url> url = Url::parse("cryo://[::1]/job.1");
    ASSERT_TRUE(url);
    EXPECT_EQ("::1", url->at.host);
    EXPECT_EQ(usual_port, url->at.port);
    EXPECT_EQ("", url->image.series);
    EXPECT_EQ("cryo://[::1]:12796/job.1", url->text());
    EXPECT_EQ("solver", Url::parse("cryo://n7/solver/")->image.series);
    EXPECT_EQ("", Url::parse("cryo://n7")->image.text());
}

TEST(Url, RefusesWhatIsNone)
{
    for (const char *text : {"",
                             "n7",
                             "cryo:/n7/a",
                             "http://n7/a",
                             "cryo://",
                             "cryo:///a",
                             "cryo://n7:/a/b/c",
                             "cryo://n7:0x1/a",
                             "cryo://n7:65536/a",
                             "cryo://n7:1 /a",
                             "cryo://[::1/a",
                             "cryo://n 7/a",
                             "cryo://::1/a",
                             "cryo://n7/../a",
                             "cryo://n7/a/..",
                             "cryo://n7/.a",
                             "cryo://n7//a",
                             "cryo://n7/a,b",
                             "cryo://n7/a~1",
                             "cryo://n7/a\nb",
                             "cryo://n7/-a",
                             "cryo://u@n7/a"}) {
        const Result<Url> url = Url::parse(text);
        ASSERT_FALSE(url) << text;
        EXPECT_EQ(EINVAL, url.error().code());
    }
}

TEST(Url, ANameIsThatOfAFileAnywhere)
{
    for (const char *name : {"a", "context.000001", "n7@site", "_x", "A+b-c_d.e"})
        EXPECT_TRUE(is_image_name(name)) << name;
    EXPECT_TRUE(is_image_name(std::string(most_name, 'a')));
    for (const char *name : {"", ".", "..", ".a", "-a", "a/b", "a,b", "a~b", "a b", "\xc3\xa4"})
        EXPECT_FALSE(is_image_name(name)) << name;
    EXPECT_FALSE(is_image_name(std::string(most_name + 1, 'a')));
    EXPECT_FALSE(is_image_name(std::string("a\0b", 3)));
}

TEST(Url, TellsAPathFromAUrl)
{
    EXPECT_EQ("cryo", scheme_of("cryo://n7/a"));
    EXPECT_EQ("s3", scheme_of("s3://bucket/a"));
    EXPECT_EQ("", scheme_of("/data/context.1"));
    EXPECT_EQ("", scheme_of("://a"));
    EXPECT_EQ("", scheme_of("./a://b"));
}

} // namespace cryo::server
