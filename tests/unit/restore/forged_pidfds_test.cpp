// SPDX-License-Identifier: Apache-2.0
// Images that say of a descriptor that it is a pidfd of whatever process: a restart gives none of a
// process that it has not made itself.
#include "forged_image.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr uint32_t pidfd_file = 1, socket_file = 2;
constexpr uint32_t good = 11, forged = 12, receiver = 13; // OPEN_FILE
constexpr uint32_t good_fd = 5, forged_fd = 6;

class ForgedPidfds : public ForgedImage
{
  protected:
    void SetUp() override
    {
        ForgedImage::SetUp();
        if (!HasFatalFailure())
            add_file(pidfd_file, image::FileKind::pidfd, "anon_inode:[pidfd]");
    }
    // A descriptor that is open, of a pidfd.
    void add_pidfd(uint32_t open_file, uint32_t fd, uint32_t pid)
    {
        add_open(open_file, pidfd_file);
        add_pidfd(open_file, pid);
        add_descriptor(fd, open_file);
    }
    void add_pidfd(uint32_t open_file, uint32_t pid)
    {
        image::Pidfd record;
        record.open_file = open_file;
        record.pid = pid;
        add(record);
    }
    // A socket in which a message waits that brings this open file.
    void add_message_with(uint32_t open_file)
    {
        add_file(socket_file, image::FileKind::socket);
        add_open(receiver, socket_file);
        image::Socket socket;
        socket.open_file = receiver;
        socket.domain = AF_UNIX;
        socket.kind = SOCK_STREAM;
        socket.state = image::SocketState::pair;
        socket.object = 1;
        socket.size = 1;
        add(socket);
        add_page(socket.object, 'x');
        const uint32_t brings[] = {open_file};
        image::Passed passed;
        passed.socket = receiver;
        passed.size = 1;
        passed.open_files = image::List<uint32_t>::of(brings);
        add(passed);
    }
};

class Strangers : public ForgedPidfds, public testing::WithParamInterface<uint32_t>
{};

// The pidfd of the member itself, and that of a process that has ended, are accepted before.
TEST_P(Strangers, AreInNoPidfd)
{
    add_pidfd(good, good_fd, GetParam() % 2 == 0 ? member : 0);
    add_pidfd(forged, forged_fd, GetParam());
    expect_refusal(EINVAL, fmt::format("descriptor {} is a pidfd of process {}, which is not in "
                                       "the image",
                                       forged_fd, GetParam()));
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
    expect_refusal(EINVAL, "a pidfd refers to no open file");
}

// What only holds the number of a member's pidfd must not reach the program by another way.
TEST_F(ForgedPidfds, InAMessageIsRefused)
{
    add_pidfd(good, good_fd, member);
    add_message_with(good);
    expect_refusal(EINVAL, fmt::format("carries a pidfd of process {}", member));
}

} // namespace

} // namespace cryo::restore
