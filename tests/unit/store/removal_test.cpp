// SPDX-License-Identifier: Apache-2.0
// What a place in a store has goes as a whole, whatever another one does meanwhile.
#include "small_store.hpp"
#include "store/claim.hpp"
#include "store/removal.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace cryo::store {

namespace {

const Location place{"bucket", "run"};
const std::string claimed = "bucket/run/pushing";
const std::string manifest = "bucket/run/cryo.json";

using Keys = std::vector<std::string>;

// A store that has lists, too.
class RemovalTest : public testing::Test
{
  protected:
    RemovalTest()
    {
        store_.instead = [this](const std::string &method, const std::string &target) {
            if (method == "PUT" && target == claimed && when_taken_)
                when_taken_();
            if (method != "GET" || target.find('?') == std::string::npos)
                return std::string();
            return target.find("list-type") != std::string::npos
                       ? list()
                       : std::string("<ListMultipartUploadsResult></ListMultipartUploadsResult>");
        };
    }
    int code_of_removal()
    {
        const Settings settings = store_.settings();
        removed_ = {};
        const Result<Removed> done =
            remove_place(place, settings, {.patience = std::chrono::seconds(0)});
        if (done)
            removed_ = *done;
        return done ? 0 : done.error().code();
    }

    SmallStore store_;
    std::function<void()> when_taken_;
    Removed removed_;

  private:
    std::string list()
    {
        constexpr std::string_view bucket = "bucket/";
        std::string text = "<ListBucketResult>";
        for (const std::string &key : store_.keys()) {
            const std::string_view name = std::string_view(key).substr(bucket.size());
            if (name.starts_with("run/files/"))
                text += "<Contents><Key>" + std::string(name) + "</Key><Size>3</Size></Contents>";
        }
        return text + "</ListBucketResult>";
    }
};

} // namespace

TEST_F(RemovalTest, NothingIsLeftOfAPlace)
{
    EXPECT_EQ(ENOENT, code_of_removal());
    EXPECT_TRUE(store_.keys().empty());
    store_.put(manifest, "{}");
    store_.put("bucket/run/files/a-3", "one");
    store_.put("bucket/run/files/b-3", "two");
    store_.put("bucket/run/files/below/files/c-3", "of a place of that name");
    EXPECT_EQ(0, code_of_removal());
    EXPECT_EQ(2U, removed_.objects);
    EXPECT_EQ(6U, removed_.bytes);
    EXPECT_EQ(Keys{"bucket/run/files/below/files/c-3"}, store_.keys());
}

// A push may have completed what was begun, when the removal has looked and before it has the
// place.
TEST_F(RemovalTest, WhatWasCommittedMeanwhileGoesAsAWhole)
{
    store_.put("bucket/run/files/a-3", "one");
    when_taken_ = [this] {
        store_.put("bucket/run/files/b-3", "two");
        store_.put(manifest, "{}");
    };
    EXPECT_EQ(0, code_of_removal());
    EXPECT_EQ(2U, removed_.objects);
    EXPECT_EQ(Keys{}, store_.keys());
}

} // namespace cryo::store
