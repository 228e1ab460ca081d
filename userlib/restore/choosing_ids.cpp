// SPDX-License-Identifier: Apache-2.0
#include "restore/choosing_ids.hpp"

#include "device/device.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

bool may_choose_ids(bool with_module)
{
    // Our own id is in use, so no process is made; but the kernel checks the privilege first.
    const pid_t own = getpid();
    clone_args args = {};
    args.exit_signal = SIGCHLD;
    args.set_tid = reinterpret_cast<uint64_t>(&own);
    args.set_tid_size = 1;
    if (sys::call(SYS_clone3, &args, sizeof(args)) == -EEXIST)
        return true;
    if (!with_module)
        return false;
    Result<Device> device = Device::open(Device::Access::ReadWrite);
    if (!device) // the administrator may allow it to all (nextpid_for_all)
        device = Device::open(Device::Access::ReadOnly);
    return device && device->has(CRYO_FEATURE_NEXTPID | CRYO_FEATURE_RESTORE) &&
           !device->has(CRYO_FEATURE_FILTERED);
}

} // namespace cryo::restore
