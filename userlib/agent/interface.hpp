// SPDX-License-Identifier: Apache-2.0
//
// The interface of the agent for libcr.so.0. There is one agent in a process: libcr_run.so (or
// libcr_omit.so) when one of them is preloaded, else the copy inside libcr.so.0. The preloaded ones
// export this table under its name, libcr.so.0 refers to it weakly and falls back on its own:
//
//     agent().enter_cs(id, false)      // libcr/edge.hpp
//
// All functions return −errno or −CR_E* for an error and leave errno alone. Those marked `signal`
// may be called in a signal handler.
#pragma once

#include "libcr.h"

#include <cstdint>

namespace cryo::agent {

struct Lodger; // lodger.hpp

// Kinds of descriptors that are not part of an image. In the restored copy a request's handle
// appears again and is ready (CR_ERESTARTED); the destination of an image becomes /dev/null, so
// that the file is not truncated to its former size; any other is closed.
enum class OwnFdKind { handle, destination, other };

struct Interface {
    uint32_t size; // of this table: functions are only ever appended
    int (*begin)(char **environment);
    void (*own_library)(const void *inside); // saved whole in an image
    // Clients and callbacks
    int (*init)();
    int (*register_callback)(cr_callback_t fn, void *argument, int flags);
    int (*replace_callback)(int id, cr_callback_t fn, void *argument, int flags);
    int (*replace_self)(cr_callback_t fn, void *argument, int flags);
    int (*checkpoint)(int flags);                  // signal
    int (*enter_cs)(int id, bool only_if_at_once); // signal; 1: it would have to wait
    int (*leave_cs)(int id);                       // signal
    int (*status)();                               // signal
    const cr_checkpoint_info *(*checkpoint_info)();
    const cr_restart_info *(*restart_info)();
    int (*register_hook)(int event, cr_hook_fn_t hook, cr_hook_fn_t *before);
    int (*hold_ctrl)(int scope, int flags, int *before); // signal
    int (*persist)(int by);                              // the count before the change
    int (*forward)(int scope, int target);
    // Requests
    int (*may_request)(); // 0 if the calling thread has called init
    int (*own_fd)(int fd, OwnFdKind kind);
    void (*disown_fd)(int fd);
    // Calls `arrived` in a handler of the checkpoint signal, in any thread that has it unblocked,
    // when the descriptor becomes readable (or writable again). At most one descriptor; −1: none. A
    // restored copy watches nothing.
    int (*watch_fd)(int fd, void (*arrived)(void *), void *argument);
    uint32_t (*restarts)(); // signal; how often this process was restored
    // For the part of the process that is not saved with it
    void (*set_lodger)(const Lodger *lodger);
    // For the end of a handler of a signal that the program is unaware of, with its ucontext_t:
    // resumes the system call that the signal interrupted.
    void (*resume_call)(void *frame); // signal
    uint32_t (*rounds)();             // checkpoints and restarts ended so far, failed ones included
    // Waits for this process's checkpoint, requested at that count of rounds, or for the end of the
    // request; in a critical section, only until the request waits for its end. Returns at once if
    // THREAD-context callbacks, which run beside the program, might need the caller.
    void (*await_round)(int handle, uint32_t rounds_before);
    // As enter_cs and leave_cs, around the start of a request: where THREAD-context callbacks might
    // need the caller, neither waits.
    int (*enter_request)(int id); // 1: it would have to wait
    int (*leave_request)(int id);
};

// Exported by the preloaded libraries; null if none is loaded.
extern "C" {
[[gnu::weak, gnu::visibility("default")]] extern const Interface *const cryo_agent_interface;
}

// The copy of the agent in this library.
extern const Interface own_interface;

} // namespace cryo::agent
