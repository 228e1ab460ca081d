// SPDX-License-Identifier: Apache-2.0
#include "store/measured.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::store {

namespace {

class MeasuredFile : public testing::Test
{
  protected:
    void SetUp() override
    {
        write("contents");
        Result<Measured> measured = Measured::of(
            {"image", [this]() -> Result<Fd> { return Fd(open(path_.c_str(), O_RDONLY)); }});
        ASSERT_TRUE(measured);
        measured_ = std::move(*measured);
        opened_.reset(open(path_.c_str(), O_RDONLY));
        ASSERT_TRUE(opened_);
    }
    void write(const std::string &text) const { std::ofstream(path_) << text; }

    const Scratch scratch_;
    const std::string path_ = scratch_ / "image";
    Measured measured_;
    Fd opened_;
};

// A keeper removes images that are too old while they are sent.
TEST_F(MeasuredFile, IsUnchangedWithoutItsName)
{
    ASSERT_EQ(unlink(path_.c_str()), 0);
    EXPECT_TRUE(measured_.check_unchanged(opened_.get()));
}

TEST_F(MeasuredFile, IsUnchangedWithAnotherMode)
{
    ASSERT_EQ(chmod(path_.c_str(), 0444), 0);
    EXPECT_TRUE(measured_.check_unchanged(opened_.get()));
}

TEST_F(MeasuredFile, IsChangedWithOtherContents)
{
    for (const char *text : {"CONTENTS", "longer contents", "short"}) {
        write(text);
        const Result<void> same = measured_.check_unchanged(opened_.get());
        ASSERT_FALSE(same);
        EXPECT_EQ(same.error().code(), EAGAIN);
    }
}

} // namespace

} // namespace cryo::store
