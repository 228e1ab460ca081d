// SPDX-License-Identifier: Apache-2.0
#include "base/undoing.hpp"

#include "base/close_others.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo {

namespace {

constexpr int patience_ms = 5000; // for the guard to be there

// A session of its own: no signal for the process group of the command ends the guard.
[[noreturn]] void guard(const char *name, int from, const std::vector<int> &kept,
                        const std::function<void()> &undo)
{
    setsid();
    prctl(PR_SET_NAME, name);
    close_others(kept);
    char word = 0;
    static_cast<void>(send(from, &word, 1, MSG_NOSIGNAL)); // a command that has gone needs no word
    while (recv(from, &word, 1, 0) < 0 && errno == EINTR) {
    }
    undo();
    _exit(0);
}

} // namespace

Undoing::Undoing(const char *name, std::vector<int> kept, const std::function<void()> &undo)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    ours_.reset(ends[0]);
    const Fd its(ends[1]);
    kept.push_back(its.get());
    std::ranges::sort(kept);
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    // Without an exit signal: whoever waits for children of this process does not meet it.
    guard_ = static_cast<pid_t>(syscall(SYS_clone, 0L, nullptr, nullptr, nullptr, nullptr));
    if (guard_ == 0)
        guard(name, its.get(), kept, undo);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pollfd ready = {ours_.get(), POLLIN, 0};
    int found = 0;
    while (guard_ > 0 && (found = poll(&ready, 1, patience_ms)) < 0 && errno == EINTR) {
    }
    if (found != 1)
        dismiss();
}

Undoing::~Undoing()
{
    dismiss();
}

void Undoing::dismiss()
{
    if (guard_ <= 0)
        return;
    kill(guard_, SIGKILL);
    while (waitpid(guard_, nullptr, __WALL) < 0 && errno == EINTR) {
    }
    guard_ = -1;
}

} // namespace cryo
