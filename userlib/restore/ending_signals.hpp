// SPDX-License-Identifier: Apache-2.0
//
// Signals that end a command (from a terminal, a shell, a batch system) also end
// a restart as long as there is no program yet; once the program may run, they
// are meant for it. That moment cannot be known in time: the program may run, and
// be seen to run, before this process learns of it. So the signals are blocked
// while there are processes, and let through only where no report has arrived.
//
//     EndingSignals ending;
//     ending.await(status);      // until it is readable; meanwhile a signal may end us
//     ending.let_through();      // the program cannot be running yet
//     ending.release();          // it will not run; else signals stay blocked, for the caller
#pragma once

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <poll.h>

namespace cryo::restore {

class EndingSignals
{
  public:
    EndingSignals()
    {
        sigset_t ending;
        sigemptyset(&ending);
        for (const int signal : signals)
            sigaddset(&ending, signal);
        sigprocmask(SIG_BLOCK, &ending, &before_);
        asked_ = 0;
        // Without a handler, a signal sent during the wait would end this
        // process at once, even if the descriptor is readable already.
        for (size_t i = 0; i < count; i++) {
            sigaction(signals[i], nullptr, &old_[i]);
            struct sigaction action = old_[i];
            action.sa_handler = [](int signal) { asked_ = signal; };
            if (old_[i].sa_handler == SIG_DFL)
                sigaction(signals[i], &action, nullptr);
        }
    }
    // Leaves the signals blocked.
    ~EndingSignals()
    {
        for (size_t i = 0; i < count; i++)
            sigaction(signals[i], &old_[i], nullptr);
    }
    EndingSignals(const EndingSignals &) = delete;
    EndingSignals &operator=(const EndingSignals &) = delete;

    // The kernel looks at the descriptor first: what can be read wins over a signal.
    void await(int fd) const
    {
        pollfd look = {fd, POLLIN, 0};
        while (ppoll(&look, 1, nullptr, &before_) < 0 && errno == EINTR)
            end_if_asked();
    }
    void let_through() const
    {
        sigset_t now;
        sigprocmask(SIG_SETMASK, &before_, &now);
        sigprocmask(SIG_SETMASK, &now, nullptr);
        end_if_asked();
    }
    void release() const
    {
        sigprocmask(SIG_SETMASK, &before_, nullptr);
        end_if_asked();
    }

  private:
    void end_if_asked() const
    {
        if (asked_ == 0)
            return;
        ::signal(asked_, SIG_DFL);
        sigprocmask(SIG_SETMASK, &before_, nullptr);
        raise(asked_);
    }

    static constexpr int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static constexpr size_t count = sizeof(signals) / sizeof(signals[0]);
    static inline volatile sig_atomic_t asked_ = 0;
    sigset_t before_;
    struct sigaction old_[count];
};

} // namespace cryo::restore
