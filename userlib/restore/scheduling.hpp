// SPDX-License-Identifier: Apache-2.0
//
// Whether the restored threads may have the nice value and the scheduling policy that they had: to
// leave a higher nice value or SCHED_IDLE, which cr_restart may have been started with, takes a
// privilege or RLIMIT_NICE.
//
//     if (!may_have_nice(saved.nice)) …     // it keeps cr_restart's
#pragma once

namespace cryo::restore {

// Sets the values for the calling thread, and resets them.
bool may_have_nice(int nice);
bool may_have_policy(int policy);

} // namespace cryo::restore
