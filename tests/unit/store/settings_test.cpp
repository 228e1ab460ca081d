// SPDX-License-Identifier: Apache-2.0
#include "store/settings.hpp"

#include "store/ini.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <map>

namespace cryo::store {

namespace {

using Strings = std::map<std::string, std::string>;

Result<Settings> settings(const Strings &variables, const Strings &files = {})
{
    return Settings::from(
        [&](const char *name) {
            const auto at = variables.find(name);
            return at == variables.end() ? std::string() : at->second;
        },
        [&](const std::string &path) -> Result<std::string> {
            const auto at = files.find(path);
            return at == files.end() ? Result<std::string>(Error::from_errno(path, ENOENT))
                                     : at->second;
        });
}

Strings with(Strings variables)
{
    variables.insert({{"HOME", "/h"}, {"AWS_ACCESS_KEY_ID", "a"}, {"AWS_SECRET_ACCESS_KEY", "s"}});
    return variables;
}

TEST(Settings, Usual)
{
    const Result<Settings> made = settings(with({}));
    ASSERT_TRUE(made);
    EXPECT_EQ("https://s3.us-east-1.amazonaws.com", made->endpoint);
    EXPECT_EQ("s3.us-east-1.amazonaws.com", made->host);
    EXPECT_EQ("a", made->access_key);
    EXPECT_EQ("", made->session_token);
    const Result<Settings> other = settings(with({{"AWS_DEFAULT_REGION", "cn-north-1"}}));
    ASSERT_TRUE(other);
    EXPECT_EQ("https://s3.cn-north-1.amazonaws.com.cn", other->endpoint);
}

TEST(Settings, VariablesBeforeFiles)
{
    const Strings files = {
        {"/h/.aws/credentials",
         "[default]\naws_access_key_id = f\naws_secret_access_key = fs\n"
         "aws_session_token = ft\n[p]\naws_access_key_id=p\naws_secret_access_key=ps\n"},
        {"/h/.aws/config",
         "[default]\nregion = r1\n[profile p]\nregion = r2\nendpoint_url = https://e:9/\n"}};
    const Result<Settings> first = settings({{"HOME", "/h"}}, files);
    ASSERT_TRUE(first);
    EXPECT_EQ("f", first->access_key);
    EXPECT_EQ("ft", first->session_token);
    EXPECT_EQ("r1", first->region);
    const Result<Settings> profile = settings({{"HOME", "/h"}, {"AWS_PROFILE", "p"}}, files);
    ASSERT_TRUE(profile);
    EXPECT_EQ("ps", profile->secret_key);
    EXPECT_EQ("", profile->session_token);
    EXPECT_EQ("https://e:9", profile->endpoint);
    EXPECT_EQ("e:9", profile->host);
    // Keys of the environment do not get the file's token.
    const Result<Settings> mixed = settings(with({{"AWS_REGION", "r3"}}), files);
    ASSERT_TRUE(mixed);
    EXPECT_EQ("a", mixed->access_key);
    EXPECT_EQ("", mixed->session_token);
    EXPECT_EQ("r3", mixed->region);
}

TEST(Settings, Refused)
{
    EXPECT_EQ(EACCES, settings({{"HOME", "/h"}}).error().code());
    EXPECT_EQ(EACCES, settings({{"HOME", "/h"}, {"AWS_ACCESS_KEY_ID", "a"}}).error().code());
    EXPECT_EQ(ENOENT, settings(with({{"AWS_CONFIG_FILE", "/none"}})).error().code());
    EXPECT_FALSE(settings(with({{"AWS_REGION", "a:b"}})));
    for (const char *endpoint : {"e", "https://", "ftp://e", "https://e/path", "https://u@e",
                                 "https://e?x", "https://e x"})
        EXPECT_EQ(EINVAL, settings(with({{"AWS_ENDPOINT_URL", endpoint}})).error().code())
            << endpoint;
}

TEST(Settings, Encryption)
{
    for (const char *endpoint : {"http://e", "http://localhost.example", "http://127.evil.example",
                                 "http://10.0.0.1:80"}) {
        EXPECT_EQ(EPERM, settings(with({{"AWS_ENDPOINT_URL", endpoint}})).error().code())
            << endpoint;
        EXPECT_TRUE(
            settings(with({{"AWS_ENDPOINT_URL", endpoint}, {"CRYO_STORE_PLAIN_HTTP", "1"}})));
    }
    for (const char *endpoint : {"http://localhost:9", "http://127.0.0.1", "http://[::1]:9"})
        EXPECT_TRUE(settings(with({{"AWS_ENDPOINT_URL", endpoint}}))) << endpoint;
    const Result<Settings> both =
        settings(with({{"AWS_ENDPOINT_URL", "https://e"}, {"AWS_ENDPOINT_URL_S3", "https://s"}}));
    ASSERT_TRUE(both);
    EXPECT_EQ("s", both->host);
}

TEST(Ini, Sections)
{
    const std::string text =
        "x = 0\n# [a]\n[a]\r\nx = 1\r\n y = 2\nz=a=b\nx=3\n;x=4\nnothing\n[ b ]\n";
    const std::optional<IniSection> a = ini_section(text, "a");
    ASSERT_TRUE(a);
    EXPECT_EQ((IniSection{{"x", "3"}, {"z", "a=b"}}), *a);
    EXPECT_TRUE(ini_section(text, "b"));
    EXPECT_FALSE(ini_section(text, "c"));
}

} // namespace

} // namespace cryo::store
