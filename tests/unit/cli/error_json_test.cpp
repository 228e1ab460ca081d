// SPDX-License-Identifier: Apache-2.0
//
// An error that one command tells another in JSON is the same there.
#include "cli/error_json.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>

using namespace cryo;

namespace {

Error sent(const Error &error)
{
    return cli::error_from(nlohmann::json::parse(cli::error_json(error).dump()));
}

} // namespace

TEST(ErrorJson, ComesBackAsItWas)
{
    for (const Reason reason :
         {Reason::other, Reason::no_agent, Reason::not_enterable, Reason::has_ended}) {
        const Error error(EBUSY, "process 7: busy", reason);
        EXPECT_EQ(EBUSY, sent(error).code());
        EXPECT_EQ("process 7: busy", sent(error).text());
        EXPECT_EQ(reason, sent(error).reason());
        EXPECT_EQ("", sent(error).remark());
        const Error remarked = error.with_remark("tried 2 times").within("context.7");
        EXPECT_EQ(remarked.text(), sent(remarked).text());
        EXPECT_EQ(reason, sent(remarked).reason());
        EXPECT_EQ("tried 2 times", sent(remarked).remark());
        EXPECT_EQ("context.7: process 7: busy", sent(remarked).text_without_remark());
    }
}

TEST(ErrorJson, HasOnlyWhatThereIs)
{
    EXPECT_EQ(R"({"code":5,"text":"gone"})", cli::error_json(Error(EIO, "gone")).dump());
    EXPECT_EQ(R"({"code":3,"text":"gone","reason":"has-ended"})",
              cli::error_json(Error(ESRCH, "gone", Reason::has_ended)).dump());
}

TEST(ErrorJson, MayBeOfAnotherRelease)
{
    const Error error =
        cli::error_from(nlohmann::json{{"text", "new"}, {"reason", "unheard-of"}, {"more", 7}});
    EXPECT_EQ(EIO, error.code());
    EXPECT_EQ("new", error.text());
    EXPECT_EQ(Reason::other, error.reason());
}
