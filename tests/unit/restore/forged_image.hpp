// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests that forge an image of one process, which a restart must refuse:
//
//     class OpenMore : public ForgedImage {};
//     TEST_F(OpenMore, AFilterOfWhatIsNoSocketIsRefused)
//     {
//         add_file(1, image::FileKind::socket);
//         add_open(11, 1);
//         add_descriptor(5, 11);
//         add(more);                                       // any other record
//         expect_refusal(EINVAL, "no socket has a filter");
//     }
#pragma once

#include "image/sink.hpp"
#include "image/writer.hpp"
#include "restore/planner.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace cryo::restore {

// The id of the image's process, above all that a kernel gives.
inline constexpr uint32_t member = 12'345'678;

class ForgedImage : public testing::Test
{
  protected:
    void SetUp() override
    {
        path_ = testing::TempDir() + program_invocation_short_name + "." + std::to_string(getpid());
        auto sink = image::FileSink::create(path_, {.sync = false});
        ASSERT_TRUE(sink);
        auto writer = image::ImageWriter::create(std::move(*sink));
        ASSERT_TRUE(writer);
        writer_ = std::move(*writer);
        image::Process process;
        process.pid = process.pgid = process.sid = member;
        process.cwd = "/";
        add(process);
        image::Agent agent;
        agent.protocol = 1;
        add(agent);
    }
    void TearDown() override { std::filesystem::remove(path_); }

    template <class R>
    void add(const R &record)
    {
        ASSERT_TRUE(writer_->add(record));
    }
    void add_file(uint32_t id, image::FileKind kind, std::string_view path = {})
    {
        image::File file;
        file.id = id;
        file.kind = kind;
        file.path = path;
        add(file);
    }
    void add_open(uint32_t id, uint32_t file)
    {
        image::OpenFile open_file;
        open_file.id = id;
        open_file.file = file;
        open_file.flags = O_RDWR;
        add(open_file);
    }
    void add_descriptor(uint32_t fd, uint32_t open_file)
    {
        image::Descriptor descriptor;
        descriptor.fd = fd;
        descriptor.open_file = open_file;
        add(descriptor);
    }
    // The first page of an object.
    void add_page(uint32_t object, uint8_t byte)
    {
        ASSERT_TRUE(writer_->add_pages(object, 0, std::vector<uint8_t>(4096, byte)));
    }

    // Completes the image: its restart is refused with this code and a message that has this text,
    // before there is a process.
    void expect_refusal(int code, std::string_view text)
    {
        ASSERT_TRUE(writer_->commit());
        const auto snapshot = image::Snapshot::open(path_);
        ASSERT_TRUE(snapshot);
        const auto plan = plan_restart(**snapshot, {});
        ASSERT_FALSE(plan);
        EXPECT_EQ(plan.error().code(), code);
        EXPECT_NE(plan.error().text().find(text), std::string::npos) << plan.error().text();
    }

  private:
    std::string path_;
    std::unique_ptr<image::ImageWriter> writer_;
};

} // namespace cryo::restore
