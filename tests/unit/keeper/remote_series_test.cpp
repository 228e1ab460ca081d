// SPDX-License-Identifier: Apache-2.0
// What is sent to a second place that is no directory, and what goes there.
#include "../scratch.hpp"
#include "keeper/remote_series.hpp"

#include <fstream>
#include <gtest/gtest.h>

namespace cryo::keeper {

namespace {

using Names = std::vector<std::string>;

class FakeSeries final : public RemoteSeries
{
  public:
    using RemoteSeries::Images;
    Images there;
    const Names &done() const { return done_; }

  protected:
    Result<Images> list() const override { return there; }
    Result<void> put(const std::string &name, const std::string & /*path*/) const override
    {
        done_.push_back("put " + name);
        return {};
    }
    Result<void> remove(const std::string &name, const Image & /*image*/) const override
    {
        done_.push_back("remove " + name);
        return {};
    }

  private:
    mutable Names done_;
};

} // namespace

// As an object store has it of a push that was interrupted: it takes room, and is no image.
TEST(RemoteSeries, WhatWasOnlyBegunIsSentOrGoes)
{
    const Scratch dir;
    std::ofstream(dir / "context.000003") << "image";
    std::ofstream(dir / "context.000004") << "image";
    FakeSeries second;
    second.there["context.000001"] = {.bytes = 5, .checksum = {}, .is_begun = true};
    second.there["context.000002"] = {.bytes = 5, .checksum = {}, .is_begun = false};
    second.there["context.000003"] = {.bytes = 5, .checksum = {}, .is_begun = false};
    second.there["context.000004"] = {.bytes = 5, .checksum = {}, .is_begun = true};
    EXPECT_EQ("context.000003", *second.newest());
    ASSERT_TRUE(second.send(Series(dir.path()), {"context.000003", "context.000004"},
                            {"context.000001", "context.000004"}));
    EXPECT_EQ((Names{"put context.000004", "remove context.000001"}), second.done());
}

} // namespace cryo::keeper
