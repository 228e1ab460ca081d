// SPDX-License-Identifier: Apache-2.0
// Images that say of a descriptor that it is a pidfd of whatever process: a restart gives none of a
// process that it has not made itself.
#include "image/sink.hpp"
#include "image/writer.hpp"
#include "restore/planner.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr uint32_t member = 12'345'678; // above all ids that a kernel gives
constexpr uint32_t pidfd_file = 1, socket_file = 2;
constexpr uint32_t good = 11, forged = 12, receiver = 13; // OPEN_FILE
constexpr uint32_t good_fd = 5, forged_fd = 6;

class ForgedPidfds : public testing::Test
{
  protected:
    void SetUp() override
    {
        path_ = testing::TempDir() + "forged_pidfds." + std::to_string(getpid());
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
        image::File file;
        file.id = pidfd_file;
        file.kind = image::FileKind::pidfd;
        file.path = "anon_inode:[pidfd]";
        add(file);
    }
    void TearDown() override { std::filesystem::remove(path_); }

    template <class R>
    void add(const R &record)
    {
        ASSERT_TRUE(writer_->add(record));
    }
    // A descriptor that is open, of a pidfd.
    void add_pidfd(uint32_t open_file, uint32_t fd, uint32_t pid)
    {
        add_open(open_file, pidfd_file);
        add_pidfd(open_file, pid);
        image::Descriptor descriptor;
        descriptor.fd = fd;
        descriptor.open_file = open_file;
        add(descriptor);
    }
    void add_pidfd(uint32_t open_file, uint32_t pid)
    {
        image::Pidfd record;
        record.open_file = open_file;
        record.pid = pid;
        add(record);
    }
    void add_open(uint32_t id, uint32_t file)
    {
        image::OpenFile open_file;
        open_file.id = id;
        open_file.file = file;
        open_file.flags = O_RDWR;
        add(open_file);
    }
    // A socket in which a message waits that brings this open file.
    void add_message_with(uint32_t open_file)
    {
        image::File file;
        file.id = socket_file;
        file.kind = image::FileKind::socket;
        add(file);
        add_open(receiver, socket_file);
        image::Socket socket;
        socket.open_file = receiver;
        socket.domain = AF_UNIX;
        socket.kind = SOCK_STREAM;
        socket.state = image::SocketState::pair;
        socket.object = 1;
        socket.size = 1;
        add(socket);
        ASSERT_TRUE(writer_->add_pages(socket.object, 0, std::vector<uint8_t>(4096, 'x')));
        const uint32_t brings[] = {open_file};
        image::Passed passed;
        passed.socket = receiver;
        passed.size = 1;
        passed.open_files = image::List<uint32_t>::of(brings);
        add(passed);
    }

    // What a restart of the image is refused for, before there is a process.
    std::optional<Error> refused()
    {
        EXPECT_TRUE(writer_->commit());
        const auto snapshot = image::Snapshot::open(path_);
        EXPECT_TRUE(snapshot);
        if (!snapshot)
            return {};
        const auto plan = plan_restart(**snapshot, {});
        return plan ? std::optional<Error>() : plan.error();
    }

  private:
    std::string path_;
    std::unique_ptr<image::ImageWriter> writer_;
};

class Strangers : public ForgedPidfds, public testing::WithParamInterface<uint32_t>
{};

// The pidfd of the member itself, and that of a process that has ended, are accepted before.
TEST_P(Strangers, AreInNoPidfd)
{
    add_pidfd(good, good_fd, GetParam() % 2 == 0 ? member : 0);
    add_pidfd(forged, forged_fd, GetParam());
    const std::optional<Error> why = refused();
    ASSERT_TRUE(why);
    EXPECT_EQ(why->code(), EINVAL);
    EXPECT_NE(why->text().find(fmt::format("descriptor {} is a pidfd of process {}, which is not "
                                           "in the image",
                                           forged_fd, GetParam())),
              std::string::npos)
        << why->text();
}

// init, a process of ours (in a container that may be one outside, which has no id here), the one
// that restarts; beyond all ids; with bits that are no id's.
INSTANTIATE_TEST_SUITE_P(Pids, Strangers,
                         testing::Values(1U, static_cast<uint32_t>(std::max(getppid(), 1)),
                                         static_cast<uint32_t>(getpid()), member + 1, 0x7fffffffU,
                                         0x80000000U, 0x80000000U | member, 0xfffffffeU,
                                         0xffffffffU),
                         [](const auto &pid) { return "number" + std::to_string(pid.index); });

TEST_F(ForgedPidfds, OfNoOpenFileIsRefused)
{
    add_pidfd(forged, 0);
    const std::optional<Error> why = refused();
    ASSERT_TRUE(why);
    EXPECT_EQ(why->code(), EINVAL);
    EXPECT_NE(why->text().find("a pidfd refers to no open file"), std::string::npos) << why->text();
}

// What only holds the number of a member's pidfd must not reach the program by another way.
TEST_F(ForgedPidfds, InAMessageIsRefused)
{
    add_pidfd(good, good_fd, member);
    add_message_with(good);
    const std::optional<Error> why = refused();
    ASSERT_TRUE(why);
    EXPECT_EQ(why->code(), EINVAL);
    EXPECT_NE(why->text().find(fmt::format("brings a pidfd of process {}", member)),
              std::string::npos)
        << why->text();
}

} // namespace

} // namespace cryo::restore
