// SPDX-License-Identifier: Apache-2.0
//
// Ends the launcher of a job that has lost a node: it may wait for ever for a node that does not
// answer. It may end what it has started first, but not for long.
//
//     LauncherEnd end;
//     await_change(end.next(launcher));          // again until it has ended
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <sys/types.h>
#include <sys/wait.h>

#include "base/clock.hpp"

namespace cryo::recover {

class LauncherEnd
{
  public:
    // How long to wait, in milliseconds, until it is to be called again; -1: for the end.
    int next(pid_t launcher)
    {
        constexpr uint64_t grace_ms = 5000;
        if (!begun_ns_) {
            siginfo_t ended = {};
            if (waitid(P_PID, static_cast<id_t>(launcher), &ended, WEXITED | WNOHANG | WNOWAIT) !=
                    0 ||
                ended.si_pid != 0)
                return -1; // by itself
            begun_ns_ = now_ns();
            kill(launcher, SIGTERM);
            kill(launcher, SIGCONT);
        }
        const uint64_t past = (now_ns() - *begun_ns_) / 1'000'000;
        if (past < grace_ms)
            return static_cast<int>(grace_ms - past);
        kill(launcher, SIGKILL);
        return -1;
    }

    // The exit status may be that of a launcher that does what it is told.
    bool was_told() const { return begun_ns_.has_value(); }

  private:
    std::optional<uint64_t> begun_ns_;
};

} // namespace cryo::recover
