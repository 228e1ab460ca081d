// SPDX-License-Identifier: Apache-2.0
//
// Making processes and turning them into the saved ones.
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
    Fd status;          // the root's callbacks say here if they fail
    int failed_callback = 0;
    bool silent = false; // it was stopped or killed before it could say that it lives

    // To be asked when the root has ended: the error code of a failed callback, or 0.
    int failure() const;
    // The same, waited for.
    int await_callbacks() const;
};

struct RestartWatch {
    // Bytes of memory that were sent; of a rehearsal, and then compared.
    std::function<void(uint64_t done, uint64_t total)> progress;
    std::function<void()> begins; // there may be a process that lives from here on
};

// Of a rehearsal (RestartOptions::rehearse), nothing is left on success either: what was brought
// back is compared with the image and ended.
//
// `library`: path of libcr_run.so, preloaded into the fresh processes. `device`: the same /dev/cryo
// that the plan was made for. On failure none is left. On success SIGHUP, SIGINT, SIGQUIT and
// SIGTERM are blocked (ending_signals.hpp), until somebody is there to pass them on.
Result<Restarted> restart(TreePlan &tree, const std::string &library, int device = -1,
                          const RestartWatch &watch = {});

} // namespace cryo::restore
