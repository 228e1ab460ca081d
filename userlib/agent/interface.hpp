// SPDX-License-Identifier: Apache-2.0
//
// What libcr.so.0 asks of the agent. There is one agent in a process: libcr_run.so (or
// libcr_omit.so) when one of them is preloaded, else the copy inside libcr.so.0. The preloaded ones
// export this table under its name, libcr.so.0 refers to it weakly and falls back on its own:
//
//     interface().enter_cs(id, false)
//
// All functions return −errno or −CR_E* for an error and leave errno alone. What is marked `signal`
// may be called from a signal handler.
#pragma once

#include "libcr.h"

#include <cstdint>

namespace cryo::agent {

struct Lodger; // lodger.hpp

// Descriptors that are not part of an image. In the restored copy a handle of a request appears
// again, as one that is ready (CR_ERESTARTED); where an image was written to is /dev/null, so that
// it is not cut back to what it was then; any other is closed.
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
    int (*persist)(int by);                              // the count before
    int (*forward)(int scope, int target);
    // Requests
    int (*may_request)(); // the calling thread has called init
    int (*own_fd)(int fd, OwnFdKind kind);
    void (*disown_fd)(int fd);
    // Calls `arrived` in a handler of the checkpoint signal, in any thread that lets it in, when
    // something can be read from the descriptor (or written again). One descriptor; −1: none. A
    // restored copy watches nothing.
    int (*watch_fd)(int fd, void (*arrived)(void *), void *argument);
    uint32_t (*restarts)(); // signal; how often this process was restored
    // Of what lives in the process and is not saved with it
    void (*set_lodger)(const Lodger *lodger);
    // At the end of a handler of a signal that the program does not know of, with its ucontext_t:
    // a system call that it interrupted goes on.
    void (*resume_call)(void *frame); // signal
    uint32_t (*rounds)();             // checkpoints and restarts that have ended, well or not
    // Of a request for this process, made when so many had: until its checkpoint has been taken;
    // in a critical section, until it waits for the end of that. Or until the request has ended.
    // Not where callbacks of THREAD context, which run beside the program, might need the caller.
    void (*await_round)(int handle, uint32_t rounds_before);
};

// As exported by the preloaded libraries; null where none is loaded.
extern "C" {
[[gnu::weak, gnu::visibility("default")]] extern const Interface *const cryo_agent_interface;
}

// The copy of the agent that the file is linked into.
extern const Interface own_interface;

} // namespace cryo::agent
