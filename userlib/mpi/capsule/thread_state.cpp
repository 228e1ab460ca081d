// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/thread_state.hpp"
#include "mpi/capsule/cross.hpp"
#include "sys/raw.hpp"

#include <sys/prctl.h>

namespace cryo::capsule {

ThreadState::ThreadState() : fs_(current_fs())
{
    constexpr unsigned long all = ~0UL;
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &signals_, sizeof(all));
    complete_ = !sys::failed(sys::call(SYS_prctl, PR_GET_TID_ADDRESS, &tid_address_)) &&
                !sys::failed(sys::call(SYS_get_robust_list, 0, &robust_list_, &robust_bytes_));
}

void ThreadState::return_home() const
{
    switch_fs(fs_);
}

ThreadState::~ThreadState()
{
    if (complete_) {
        sys::call(SYS_set_tid_address, tid_address_);
        sys::call(SYS_set_robust_list, robust_list_, robust_bytes_);
    }
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &signals_, nullptr, sizeof(signals_));
}

} // namespace cryo::capsule
