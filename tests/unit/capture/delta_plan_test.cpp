// SPDX-License-Identifier: Apache-2.0
// In a user namespace it does not show whose an image is: somebody outside tells.
#include "capture/memory/delta_plan.hpp"

#include "image/sink.hpp"
#include "image/writer.hpp"

#include "../scratch.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cryo::capture {
namespace {

namespace fs = std::filesystem;

constexpr pid_t root = 12'345'678;

void write_image(const std::string &path)
{
    auto sink = image::FileSink::create(path, {.sync = false});
    ASSERT_TRUE(sink);
    auto writer = image::ImageWriter::create(std::move(*sink));
    ASSERT_TRUE(writer);
    image::Process process;
    process.pid = process.pgid = process.sid = root;
    ASSERT_TRUE((*writer)->add(process));
    ASSERT_TRUE((*writer)->commit());
}

TEST(DeltaPlan, TakesNoImageOfAUserWhoIsOnlyKnownOutside)
{
    constexpr uid_t caller = 1000, other = 1001;
    const Scratch directory;
    const std::string path = directory / "first";
    write_image(path);
    struct stat written = {};
    ASSERT_EQ(0, stat(path.c_str(), &written));
    DeltaOptions options;
    options.mode = image::DeltaMode::incremental;
    const DeltaPlan::Places places = {directory / "second"};
    const std::string none = "there is no earlier image beside it: this one is complete";
    for (const uid_t owner : {caller, other}) {
        const auto plan = DeltaPlan::make(options, places, root, [&](int fd) {
            struct stat now = {};
            const bool is_image = fstat(fd, &now) == 0 && now.st_dev == written.st_dev &&
                                  now.st_ino == written.st_ino;
            return std::optional<uid_t>(is_image ? owner : caller);
        });
        ASSERT_TRUE(plan) << plan.error().text();
        EXPECT_EQ(owner == other, plan->notice() == none) << plan->notice();
    }
}

} // namespace
} // namespace cryo::capture
