// SPDX-License-Identifier: Apache-2.0
#include "restore/choosing_ids.hpp"

#include "base/contents.hpp"
#include "base/fd.hpp"
#include "device/device.hpp"
#include "look/members.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <string>
#include <sys/syscall.h>
#include <sys/vfs.h>
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

namespace {

// Asked of the kernel first, as /proc may hide the processes of others. A number that only a thread
// or a process has is no group.
bool exists(image::Scope scope, pid_t id)
{
    const bool is_found =
        scope == image::Scope::group ? kill(-id, 0) == 0 || errno == EPERM : getsid(id) == id;
    const auto members = capture::members_of(scope, id);
    return is_found || (members && !members->empty());
}

} // namespace

Result<void> check_unused(uint32_t pgid, uint32_t sid)
{
    const struct {
        image::Scope scope;
        uint32_t id;
        pid_t ours;
        const char *what, *option;
    } wanted[] = {{image::Scope::group, pgid, getpgrp(), "process group", "--restore-pgid"},
                  {image::Scope::session, sid, getsid(0), "session", "--restore-sid"}};
    for (const auto &[scope, number, ours, what, option] : wanted) {
        const auto id = static_cast<pid_t>(number);
        if (id == 0 || id == ours || !exists(scope, id))
            continue;
        return Error(EBUSY, fmt::format("the id {} of the {} is in use here: without {} the first "
                                        "process is in that of cr_restart",
                                        id, what, option));
    }
    return {};
}

Ids ids_of(int device, const char *load)
{
    Ids ids;
    ids.device = device;
    if (device < 0)
        return ids;
    // The last number is the last id given to a task in the reader's pid namespace, wherever this
    // /proc was mounted. But a container may have another file there (lxcfs), of which the reader
    // is a process of the host.
    const Fd file(open(load, O_RDONLY | O_CLOEXEC));
    struct statfs system = {};
    if (!file || fstatfs(file.get(), &system) != 0 || system.f_type != PROC_SUPER_MAGIC)
        return ids;
    const Result<std::string> text = contents(file.get(), load);
    uint32_t last = 0;
    if (text)
        std::from_chars(text->data() + text->rfind(' ') + 1, text->data() + text->size(), last);
    if (last != 0)
        ids.home = last + 1;
    return ids;
}

bool is_about_choosing(int error)
{
    return error == EPERM || error == ENOSYS || error == EINVAL;
}

Error not_chosen(pid_t pid, int error)
{
    if (error == ENOSYS)
        return Error(error, fmt::format("pid {} cannot be assigned: {}; use --no-restore-pid for a "
                                        "new one, or another seccomp profile",
                                        pid, clone3_denied));
    if (error == EINVAL)
        return Error(error, fmt::format("pid {} is above the highest id of this kernel "
                                        "(/proc/sys/kernel/pid_max); use --no-restore-pid for a "
                                        "new one",
                                        pid));
    return Error(error, fmt::format("pid {} cannot be assigned without a privilege "
                                    "(CAP_CHECKPOINT_RESTORE, or the kernel module and "
                                    "membership in the group cryo); use --pidns to get it in a pid "
                                    "namespace, or --no-restore-pid for a new one",
                                    pid));
}

} // namespace cryo::restore
