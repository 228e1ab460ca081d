// SPDX-License-Identifier: Apache-2.0
//
// Signals that end a command (of a terminal, a shell, a batch system) end a restart, too, as long
// as there is no program yet; from the moment that it may live they are meant for it. Nobody knows
// that moment in time: the program may run, and be seen to run, before we hear of it. So they are
// blocked from the time that there are processes, and let through only where nothing has been
// heard.
//
//     EndingSignals ending;
//     ending.await(status);      // either it can be read, or we may be ended
//     ending.let_through();      // it cannot live yet
//     ending.release();          // it will not live; else they are left blocked, for the caller
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
        // A signal that no handler waits for would end us at the moment that it is sent, while we
        // wait, also when there is something to be read already.
        for (size_t i = 0; i < count; i++) {
            sigaction(signals[i], nullptr, &old_[i]);
            struct sigaction action = old_[i];
            action.sa_handler = [](int signal) { asked_ = signal; };
            if (old_[i].sa_handler == SIG_DFL)
                sigaction(signals[i], &action, nullptr);
        }
    }
    // Leaves them blocked.
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
