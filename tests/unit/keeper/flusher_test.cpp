// SPDX-License-Identifier: Apache-2.0
//
// Copying to a second directory while images come, go, and are put there by others. The copier is
// held in the middle of a file: it may send one byte a second, and sleeps until a signal wakes it.
#include "keeper/flusher.hpp"

#include "sample.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <poll.h>

namespace cryo::keeper {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class FlusherTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        struct sigaction action = {};
        action.sa_handler = [](int) {};
        sigaction(SIGUSR1, &action, &before_);
    }
    void TearDown() override { sigaction(SIGUSR1, &before_, nullptr); }

    // Of the first directory, based on another image or on none.
    image::Committed add(const std::string &name, const image::Committed *base = nullptr)
    {
        image::WriterOptions options;
        if (base != nullptr)
            options.base = image::BaseImage{base->id, base->checksum};
        const image::Committed made =
            image::write_image(first_ / name, image::Model::random(++seed_, 4), options);
        images_[name] = *from_.id_of(name);
        return made;
    }
    // The copier, when all of the file is copied and has no name yet.
    pid_t await_copy_of(const std::string &name)
    {
        for (;;) {
            for (const auto &file : fs::directory_iterator(second_.path())) {
                const std::string made = file.path().filename();
                const std::string start = "." + name + ".";
                if (made.starts_with(start) && file.file_size() == fs::file_size(first_ / name))
                    return atoi(made.c_str() + start.size());
            }
            poll(nullptr, 0, 1);
        }
    }
    Result<double> let_end(pid_t copier)
    {
        pollfd ended = {flusher_.fd(), POLLIN, 0};
        while (poll(&ended, 1, 1) == 0)
            kill(copier, SIGUSR1);
        return flusher_.end();
    }

    struct sigaction before_ = {};
    uint64_t seed_ = 0;
    image::Scratch first_, second_;
    Series from_{first_.path()}, to_{second_.path()};
    Images images_;
    Flusher flusher_{from_, to_, 1};
};

TEST_F(FlusherTest, WhatIsBeingCopiedIsNotPruned)
{
    const image::Committed base = add("context.000001");
    add("context.000002", &base);
    ASSERT_TRUE(flusher_.begin(1, images_, {}));
    const pid_t copier = await_copy_of("context.000001");
    add("context.000003");
    ASSERT_TRUE(from_.prune(1, images_, flusher_.copying()));
    EXPECT_EQ(*from_.names(), (Names{"context.000001", "context.000002", "context.000003"}));
    const Result<double> took = let_end(copier);
    ASSERT_TRUE(took) << took.error().text();
    EXPECT_EQ(*to_.names(), (Names{"context.000001", "context.000002"}));
    ASSERT_TRUE(from_.prune(1, images_, flusher_.copying()));
    EXPECT_EQ(*from_.names(), Names{"context.000003"});
}

TEST_F(FlusherTest, ALateCopierReplacesNothing)
{
    add("context.000001");
    ASSERT_TRUE(flusher_.begin(1, images_, {}));
    const pid_t copier = await_copy_of("context.000001");
    image::write_image(second_ / "context.000001", image::Model::random(99, 4));
    const auto there = image::slurp(second_ / "context.000001");
    const Result<double> took = let_end(copier);
    ASSERT_FALSE(took);
    EXPECT_NE(took.error().text().find("is another file"), std::string::npos);
    EXPECT_EQ(image::slurp(second_ / "context.000001"), there);
    EXPECT_EQ(std::distance(fs::directory_iterator(second_.path()), {}), 1);
}

TEST_F(FlusherTest, ACopyThatAnotherCopierHasMadeIsGood)
{
    add("context.000001");
    ASSERT_TRUE(flusher_.begin(1, images_, {}));
    const pid_t copier = await_copy_of("context.000001");
    fs::copy_file(first_ / "context.000001", second_ / "context.000001");
    const Result<double> took = let_end(copier);
    EXPECT_TRUE(took) << took.error().text();
    EXPECT_EQ(*to_.names(), Names{"context.000001"});
}

} // namespace

} // namespace cryo::keeper
