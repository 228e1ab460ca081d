// SPDX-License-Identifier: Apache-2.0
// Images that say what an open file holds, and have no such open file, or no file to it, or that a
// process shares with a parent what it cannot: a restart is refused by name.
#include "forged_image.hpp"

#include <cerrno>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>

namespace cryo::restore {

namespace {

constexpr uint32_t nothing = 11; // OPEN_FILE

class ForgedKinds : public ForgedImage
{};

image::Process sharing(uint32_t flags)
{
    image::Process process;
    process.pid = process.pgid = process.sid = member;
    process.cwd = "/";
    process.shares = flags;
    return process;
}

// The process would change the working directory of cr_restart.
TEST_F(ForgedKinds, ADirectoryThatIsSharedWithNoParentIsRefused)
{
    add(sharing(CLONE_FS));
    expect_refusal(EINVAL, "shares with its parent");
}

TEST_F(ForgedKinds, SharedMemoryIsRefused)
{
    add(sharing(CLONE_VM | CLONE_FS));
    expect_refusal(ENOTSUP, "(clone flags 0x100)");
}

TEST_F(ForgedKinds, AnEventfdOfNoOpenFileIsRefused)
{
    image::Eventfd record;
    record.open_file = nothing;
    add(record);
    expect_refusal(EINVAL, "an eventfd refers to no open file");
}

TEST_F(ForgedKinds, ASignalfdOfNoOpenFileIsRefused)
{
    image::Signalfd record;
    record.open_file = nothing;
    add(record);
    expect_refusal(EINVAL, "a signalfd refers to no open file");
}

TEST_F(ForgedKinds, ATimerfdOfNoOpenFileIsRefused)
{
    image::Timer record;
    record.kind = image::TimerKind::timerfd;
    record.id = -1;
    add(record);
    expect_refusal(EINVAL, "a timerfd refers to no open file");
}

TEST_F(ForgedKinds, AWatchOfNoOpenFileIsRefused)
{
    image::InotifyWatch record;
    record.open_file = nothing;
    record.watch = 1;
    record.path = "/";
    add(record);
    expect_refusal(EINVAL, "an inotify watch refers to no open file");
}

// An eventfd would be opened without a look at the file.
TEST_F(ForgedKinds, AnOpenFileOfNoFileIsRefused)
{
    add_open(nothing, 1);
    image::Eventfd record;
    record.open_file = nothing;
    add(record);
    expect_refusal(EINVAL, "open file 11 refers to no file");
}

TEST_F(ForgedKinds, ALockOfNoFileIsRefused)
{
    add_file(1, image::FileKind::regular, "/dev/null");
    add_open(nothing, 1);
    image::Lock record;
    record.kind = image::LockKind::flock;
    record.file = 2;
    record.open_file = nothing;
    add(record);
    expect_refusal(EINVAL, "a lock refers to no file");
}

// At a TCP socket that is made, but not to be connected.
TEST_F(ForgedKinds, AWaitingConnectionOfNoSocketIsRefused)
{
    constexpr uint32_t listener = 12;
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    add_file(1, image::FileKind::socket);
    add_open(listener, 1);
    image::Socket socket;
    socket.open_file = listener;
    socket.domain = AF_INET;
    socket.kind = SOCK_STREAM;
    socket.protocol = IPPROTO_TCP;
    socket.state = image::SocketState::listening;
    socket.local = {reinterpret_cast<const uint8_t *>(&at), sizeof(at)};
    socket.backlog = 1;
    add(socket);
    const uint32_t callers[] = {nothing};
    image::Waiting record;
    record.listener = listener;
    record.callers = image::List<uint32_t>::of(callers);
    add(record);
    expect_refusal(EINVAL, "an object that is no socket waits to be accepted");
}

} // namespace

} // namespace cryo::restore
