// SPDX-License-Identifier: Apache-2.0
// Starts the agent, outside signal handlers; and the child's side of a fork.
#include "agent/init.hpp"

#include "agent/callbacks.hpp"
#include "agent/forked.hpp"
#include "agent/undisturbed.hpp"
#include "libcr.h"
#include "restorer/enter.hpp"
#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <csignal>
#include <cstdlib>
#include <pthread.h>
#include <sys/auxv.h>

namespace cryo::agent {

namespace {

constexpr int last_signal = 64; // SIGRTMAX, which is a function call

// The signal may have been pending since before the program was executed.
long unblock()
{
    const uint64_t only = uint64_t(1) << (state.signal - 1);
    return sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, nullptr, sizeof(only));
}

} // namespace

void after_fork_in_child()
{
    if (state.signal == 0)
        return; // no agent has begun
    // A child that is stopped in here is led to the end of it, which its signal mask tells
    // (capture/process/newborn.cpp).
    const Undisturbed undisturbed;
    forget_parent();
    tell_lodger_of_fork();
    open_control();
    callback_thread_after_fork();
}

int begin_agent(char **environment)
{
    if (state.signal != 0)
        return 0;
    if (sys::has_gained_rights())
        return -CR_ENOSUPPORT;
    if (const char *fd = sys::own_variable(environment, restore::plan_variable))
        restore::enter(atoi(fd));

    const char *wanted = sys::own_variable(environment, "CRYO_SIGNAL");
    state.signal = wanted != nullptr ? atoi(wanted) : last_signal;
    state.loader = getauxval(AT_BASE);
    const char *filters = sys::own_variable(environment, "CRYO_FILTERS");
    know_filters(filters != nullptr ? atoi(filters) : 0);
    if (sys::own_variable(environment, "CRYO_CONFINED") != nullptr)
        know_confined();
    round.connection = -1;
    remember_runtime_directory(sys::own_variable(environment, "XDG_RUNTIME_DIR"));
    long done = set_handler(state.signal, on_signal, nullptr);
    if (done == 0)
        done = open_control();
    // A title that the program writes over its environment takes the variable away.
    if (done == 0 && (wanted != nullptr || known_filters() != 0))
        tell_signal_at_door();
    if (done == 0)
        done = unblock();
    if (done == 0)
        done = -pthread_atfork(nullptr, nullptr, after_fork_in_child);
    return static_cast<int>(done);
}

} // namespace cryo::agent
