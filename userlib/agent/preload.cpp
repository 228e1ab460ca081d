// SPDX-License-Identifier: Apache-2.0
// libcr_run.so and libcr_omit.so: the agent as cr_run preloads it. They differ in their answer to a
// checkpoint. They export no function of libcr.h, so that a program which looks for cr_init() to
// find out whether it was linked with libcr is not misled.
#include "agent/callbacks.hpp"
#include "agent/deaf.hpp"
#include "agent/init.hpp"
#include "agent/interface.hpp"
#include "agent/interposed.hpp"
#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <cerrno>

extern "C" {
// For programs that link with this library, and refer to this symbol to force that.
[[gnu::visibility("default")]] int CRYO_LINK_ME;
}

namespace cryo::agent {

const Interface *const cryo_agent_interface = &own_interface;

} // namespace cryo::agent

namespace {

// This library is initialised before all others (-z initfirst), so that in a restart's fresh
// process no constructor of the program's libraries runs. Libc's own has not run either: environ is
// not set yet.
[[gnu::constructor]] void begin(int, char **, char **environment)
{
#ifdef CRYO_OMIT
    cryo::agent::round.omit = true;
#endif
    cryo::agent::find_real_signal_functions();
    cryo::agent::find_real_descriptor_functions();
    cryo::agent::find_real_wait_functions();
    cryo::agent::find_real_socket_functions();
    cryo::agent::find_real_exec_functions();
    cryo::agent::find_real_shell_functions();
    if (!cryo::sys::has_gained_rights())
        cryo::agent::remember_environment(environment);
    cryo::agent::find_real_ipc_functions();
    cryo::agent::find_real_memory_functions();
    cryo::agent::find_real_syscall();
    cryo::agent::find_real_clone();
    cryo::agent::find_real_prctl();
    cryo::agent::begin_agent(environment);
}

} // namespace

// Records the paths of inotify watches, which the kernel does not report: see watches.cpp.
extern "C" [[gnu::visibility("default")]] int inotify_add_watch(int fd, const char *path,
                                                                uint32_t mask) noexcept
{
    const cryo::agent::Deaf deaf; // a checkpoint in between would not know the path
    const long watch = cryo::sys::call(SYS_inotify_add_watch, fd, path, mask);
    if (cryo::sys::failed(watch)) {
        errno = static_cast<int>(-watch);
        return -1;
    }
    cryo::agent::remember_watch(path, mask);
    return static_cast<int>(watch);
}
