// SPDX-License-Identifier: Apache-2.0
//
// Makes processes and turns them into the saved ones.
//
//     Result<Restarted> alive = restart(*plan, library);
//     waitpid(alive->pid, ...);   // it is our child
#pragma once

#include "base/fd.hpp"
#include "restore/planner.hpp"

#include <functional>
#include <sys/types.h>

namespace cryo::restore {

struct Restarted {
    pid_t pid = 0; // of the root, our child
    size_t processes = 0;
    uint64_t bytes = 0; // of memory that was sent
    Fd status;          // the root's callbacks report failures here
    int failed_callback = 0;
    bool silent = false; // it was stopped or killed before it could report that it runs

    // Valid once the root has ended: the error code of a failed callback, or 0.
    int failure() const;
    // As failure(), but waits until the callbacks have finished.
    int await_callbacks() const;
};

struct RestartWatch {
    // Bytes of memory that were sent, and in a rehearsal those then compared.
    std::function<void(uint64_t done, uint64_t total)> progress;
    std::function<void()> begins; // called before processes are made
};

// In a rehearsal (RestartOptions::rehearse) no process is left on success
// either: the restored processes are compared with the image and ended.
//
// `library`: path of libcr_run.so, preloaded into the fresh processes. `device`: the same
// /dev/cryo that the plan was made for. On failure none is left. On success SIGHUP, SIGINT,
// SIGQUIT and SIGTERM are blocked (ending_signals.hpp), until the caller can forward them.
Result<Restarted> restart(TreePlan &tree, const std::string &library, int device = -1,
                          const RestartWatch &watch = {});

} // namespace cryo::restore
