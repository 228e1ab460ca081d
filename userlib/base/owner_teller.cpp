// SPDX-License-Identifier: Apache-2.0
#include "base/owner_teller.hpp"

#include "base/passing.hpp"
#include "base/pipe.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <vector>

namespace cryo {

namespace {

// A question is a packet of one byte with two descriptors: the file, and a pipe for the answer, so
// that no client reads the answer to another one.
constexpr size_t parts_of_question = 2;

// The caller's descriptors do not stay open here: another process may wait for the end of a pipe,
// or for a lock.
void close_others(int kept)
{
    const auto fd = static_cast<unsigned>(kept);
    if (fd > 0)
        syscall(SYS_close_range, 0U, fd - 1, 0U);
    syscall(SYS_close_range, fd + 1, UINT_MAX, 0U);
}

// A client that an attacker controls may pass anything: a file that only this process may write, or
// a pipe that is full.
bool may_be_answered(int to)
{
    struct stat status = {};
    return fstat(to, &status) == 0 && S_ISFIFO(status.st_mode) &&
           fcntl(to, F_SETFL, O_NONBLOCK) == 0;
}

[[noreturn]] void tell(int from, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    close_others(from);
    signal(SIGPIPE, SIG_IGN);
    for (;;) {
        char byte = 0;
        std::vector<Fd> parts;
        if (receive_with(from, room_in(byte), parts) <= 0)
            _exit(0);
        struct stat status = {};
        if (parts.size() != parts_of_question || !may_be_answered(parts[1].get()) ||
            fstat(parts[0].get(), &status) != 0)
            continue; // the pipe is closed without an answer
        const uid_t owner = status.st_uid;
        parts[0].reset(); // before the program can go on
        if (write(parts[1].get(), &owner, sizeof(owner)) != sizeof(owner))
            continue; // nobody waits for it any more
    }
}

} // namespace

Result<Fd> start_owner_teller()
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error::from_errno("socketpair", errno);
    Fd ours(ends[0]);
    const Fd its(ends[1]);
    const pid_t parent = getpid();
    const pid_t teller = fork();
    if (teller < 0)
        return Error::from_errno("fork", errno);
    if (teller == 0)
        tell(its.get(), parent);
    return ours;
}

std::optional<uid_t> ask_owner(int teller, int file, int patience_ms)
{
    Result<PipeEnds> answer = make_pipe();
    if (!answer)
        return {};
    const int parts[parts_of_question] = {file, answer->write.get()};
    constexpr char question = 0;
    if (send_with(teller, bytes_of(question), parts) != sizeof(question))
        return {};
    answer->write.reset();
    pollfd ready = {answer->read.get(), POLLIN, 0};
    int found = 0;
    do
        found = poll(&ready, 1, patience_ms);
    while (found < 0 && errno == EINTR);
    if (found <= 0)
        return {};
    uid_t owner = 0;
    ssize_t n = 0;
    do
        n = read(answer->read.get(), &owner, sizeof(owner));
    while (n < 0 && errno == EINTR);
    return n == sizeof(owner) ? std::optional<uid_t>(owner) : std::nullopt;
}

} // namespace cryo
