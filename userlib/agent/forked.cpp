// SPDX-License-Identifier: Apache-2.0
#include "agent/forked.hpp"

#include "agent/callbacks.hpp"
#include "agent/inherited.hpp"
#include "agent/kept_numbers.hpp"
#include "agent/sharers.hpp"

namespace cryo::agent {

void forget_parent()
{
    close_inherited(); // finds them by the listener, which is forgotten next
    forget_kept();
    forget_sharers();
    forget_control();
    forget_round();
    forget_callback_lock();
    forget_watch_lock();
    forget_watched();
    forget_tracker(true);
    state.active.store(0);
    state.deaf.store(0);
    state.knocking.store(0);
    state.resume.given_death_signal = 0; // the kernel has given the child none
}

} // namespace cryo::agent
