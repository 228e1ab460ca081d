// SPDX-License-Identifier: Apache-2.0
// How a rank finds the daemon of its node, starts it where there is none, and greets it. Runs in
// MPI_Init and after a restart, there perhaps in a signal handler: raw system calls, and of libc
// only functions on strings.
#include "coord/rank_side.hpp"

#include "coord/leash.hpp"
#include "coord/place.hpp"
#include "coord/rank_end.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

namespace cryo::coord {

namespace {

// A daemon may be stopped for half a minute while its ranks start.
constexpr int welcome_ms = 60'000;
constexpr int start_ms = 45'000;
constexpr int kill_ms = 1000;
constexpr int64_t slice_ms = 1000;

// Also true for root, who may do everything anyway.
bool is_our_user(int socket)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    return !sys::failed(sys::call(SYS_getsockopt, socket, SOL_SOCKET, SO_PEERCRED, &peer, &size)) &&
           (peer.uid == 0 || peer.uid == static_cast<uid_t>(sys::call(SYS_geteuid)));
}

// A socket that is connected to the daemon, or −errno.
int connect_to(const sockaddr_un &address)
{
    const long fd = sys::call(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sys::failed(fd))
        return static_cast<int>(fd);
    long result;
    do {
        result = sys::call(SYS_connect, fd, &address, sizeof(address));
    } while (result == -EINTR);
    if (!sys::failed(result) && is_our_user(static_cast<int>(fd)))
        return static_cast<int>(fd);
    if (!sys::failed(result))
        result = -EACCES;
    sys::call(SYS_close, fd);
    return static_cast<int>(result);
}

// Leaves out what would load libraries into the daemon. False: too many variables.
bool without_preload(const char *const *environment, const char **to, size_t room)
{
    for (; *environment != nullptr; environment++) {
        if (room < 2)
            return false;
        if (strncmp(*environment, "LD_PRELOAD=", 11) != 0) {
            *to++ = *environment;
            room--;
        }
    }
    *to = nullptr;
    return true;
}

// The time of the machine while it runs: one that is suspended has not waited.
int64_t now_ms()
{
    timespec time = {};
    sys::call(SYS_clock_gettime, CLOCK_MONOTONIC, &time);
    return int64_t(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
}

// Waits in slices, of which none counts for more than its length: while a scheduler has stopped the
// whole job, this process has not waited for the other.
bool ends_within(int milliseconds, int process)
{
    pollfd end = {process, POLLIN, 0};
    int64_t before = now_ms();
    for (int64_t left = milliseconds; left > 0;) {
        const long found = sys::call(SYS_poll, &end, 1, left < slice_ms ? left : slice_ms);
        if (found > 0)
            return true;
        if (found < 0 && found != -EINTR)
            return false;
        const int64_t now = now_ms();
        left -= now - before < slice_ms ? now - before : slice_ms;
        before = now;
    }
    return false;
}

// Runs the daemon's program, which exits when the daemon behind it listens. One that does not, for
// it is stopped perhaps, is ended: -ETIMEDOUT.
// The child has no exit signal, so that the MPI program does not notice it.
int start_daemon(const char *path, const char *const *environment)
{
    const char *const words[] = {path, "--node", nullptr};
    const char *clean[2048];
    if (!without_preload(environment, clean, sizeof(clean) / sizeof(clean[0])))
        return -E2BIG;
    int process = -1;
    const long child = sys::call(SYS_clone, CLONE_PIDFD, nullptr, &process, nullptr, nullptr);
    if (sys::failed(child))
        return static_cast<int>(child);
    if (child == 0) {
        const long null = sys::call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            sys::call(SYS_dup3, null, fd, 0);
        sys::call(SYS_close_range, 3, ~0U, 0);
        const uint64_t none = 0;
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
        sys::call(SYS_execve, path, static_cast<const char *const *>(words),
                  static_cast<const char *const *>(clean));
        sys::call(SYS_exit_group, 127);
    }
    const bool in_time = ends_within(start_ms, process);
    if (!in_time) {
        sys::call(SYS_pidfd_send_signal, process, SIGKILL, nullptr, 0);
        ends_within(kill_ms, process); // not at once, if its disk does not answer
    }
    sys::call(SYS_close, process);
    int status = 0;
    const long ended = sys::call(SYS_wait4, child, &status, __WALL | WNOHANG, nullptr);
    if (!in_time)
        return -ETIMEDOUT;
    if (sys::failed(ended))
        return static_cast<int>(ended);
    return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -ECHILD;
}

} // namespace

int RankSide::fail(int error, const char *thing, const char *cause)
{
    size_t n = 0;
    for (const char *text : {thing, ": ", cause}) {
        for (; *text != 0 && n + 1 < sizeof(why_); text++)
            why_[n++] = *text;
    }
    why_[n] = 0;
    return -error;
}

int RankSide::greet(const char *job, uint32_t rank, uint32_t ranks)
{
    Hello hello;
    hello.rank = rank;
    hello.ranks = ranks;
    hello.pid = static_cast<int32_t>(sys::call(SYS_getpid));
    char body[sizeof(Hello) + 256];
    memcpy(body, &hello, sizeof(hello));
    const size_t length = strnlen(job, 256);
    memcpy(body + sizeof(hello), job, length);
    put(FrameKind::hello, body, sizeof(hello) + length);
    while (fd_ >= 0 && !welcome_ && flush()) {
        if (wait(welcome_ms) == -ETIMEDOUT)
            return fail(ETIMEDOUT, "the node's daemon",
                        "does not answer; this rank cannot be saved");
        if (!pump())
            break;
    }
    if (why_[0] != 0) // refused, perhaps behind the welcome: by the job's first daemon
        return -ECONNREFUSED;
    return welcome_ ? 0 : fail(ECONNRESET, "the node's daemon", "ended; this rank cannot be saved");
}

int RankSide::connect(const char *const *environment, uint32_t rank, uint32_t ranks)
{
    const int connected = connect_in_job(environment, rank, ranks);
    // One that was refused is not in the job; a daemon that is gone is that of a node which may be
    // taken for lost.
    if (connected < 0 && !refused_ && is_fenced(environment))
        end_unfenced();
    if (connected < 0)
        forget_end();
    else
        expect_end(environment);
    return connected;
}

int RankSide::connect_in_job(const char *const *environment, uint32_t rank, uint32_t ranks)
{
    const Inside inside(*this);
    drop_connection();
    why_[0] = 0;
    const char *job = variable(environment, job_variable);
    if (job == nullptr)
        return fail(ENOENT, "CRYO_JOB", "is not set; start mpirun under cr_run");
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (!node_socket(environment, address.sun_path, sizeof(address.sun_path)))
        return fail(ENAMETOOLONG, "CRYO_JOB",
                    "is damaged, or makes a path that is too long for a socket");
    int socket = connect_to(address);
    if (socket == -ENOENT || socket == -ECONNREFUSED) {
        char daemon[4096];
        if (!daemon_path(environment, daemon, sizeof(daemon)))
            return fail(ENOENT, "CRYO_DAEMON", "is not set; start mpirun under cr_run");
        const int started = start_daemon(daemon, environment);
        if (started == -ETIMEDOUT)
            return fail(ETIMEDOUT, daemon,
                        "has not started for 45 s; is it stopped? This rank cannot be "
                        "saved");
        if (started < 0)
            return fail(ECHILD, daemon, "could not start, or could not reach the job's first node");
        socket = connect_to(address);
    }
    if (socket < 0)
        return fail(-socket, address.sun_path, "the node's daemon does not take connections");
    adopt(socket);
    const char *space = variable(environment, "PMIX_NAMESPACE");
    int greeted = greet(space != nullptr ? space : "", rank, ranks);
    if (needs_leash_ && (greeted == 0 || refused_)) {
        const int held = take_leash(connect_to(address)); // also what is refused may be here twice
        refused_ = refused_ && held == 0;
        greeted = held < 0 ? held : greeted;
    }
    if (greeted < 0) {
        drop_connection();
        return greeted;
    }
    watch();
    if (messages_.size() > 0 || !pump())
        missed_.store(true); // arrived before it was watched
    return 0;
}

} // namespace cryo::coord
