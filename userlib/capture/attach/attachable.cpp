// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/attachable.hpp"

#include "capture/session/enterable.hpp"
#include "libcr.h"
#include "look/auxiliary.hpp"
#include "look/members.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// Root enters other users' programs, but not those of several users at once.
Result<void> check_user(const Proc &proc, std::string_view status)
{
    std::string_view ids = field(status, "Uid");
    const uint64_t real = take_number(ids);
    const uint64_t effective = take_number(ids);
    const uint64_t saved = take_number(ids);
    if (real != effective || real != saved || has_gained_rights(proc))
        return Error(CR_ENOSUPPORT,
                     fmt::format("process {} has more rights than the user who started it (setuid, "
                                 "setgid, capabilities): Cryo cannot enter it",
                                 proc.pid()),
                     Reason::not_enterable);
    if (geteuid() != 0 && real != geteuid())
        return Error(EPERM, fmt::format("process {} belongs to user {}: that user or root can save "
                                        "it",
                                        proc.pid(), real));
    return {};
}

bool is_elsewhere(const Proc &proc, const char *space)
{
    const Result<std::string> theirs = proc.link(space);
    const Result<std::string> ours = Proc(getpid()).link(space);
    return theirs && ours && *theirs != *ours;
}

} // namespace

Result<void> check_attachable_by_tracer(const Proc &proc)
{
    const pid_t pid = proc.pid();
    const Result<std::string> status = proc.read("status");
    const Result<Relation> now = relation_of(pid);
    if (!status || !now)
        return Error(ESRCH, fmt::format("no process {}", pid));
    if (Result<void> user = check_user(proc, *status); !user)
        return user;
    if (is_elsewhere(proc, "ns/mnt"))
        return Error(ENOTSUP, fmt::format("process {} is in another mount namespace: run "
                                          "cr_checkpoint inside it (nsenter -t {} -m)",
                                          pid, pid));
    if (Result<void> enterable = check_enterable(proc); !enterable)
        return enterable;
    if (Result<void> free = check_filters(proc, false); !free)
        return free;
    const auto shares = [&](int what) {
        return syscall(SYS_kcmp, pid, now->ppid, what, 0, 0) == 0;
    };
    if (shares(KCMP_VM) || shares(KCMP_FILES))
        return not_listening(pid); // says with whom
    return {};
}

Result<void> check_attachable(const Proc &proc)
{
    if (Result<void> may = check_attachable_by_tracer(proc); !may)
        return may;
    const Result<std::string> status = proc.read("status");
    std::string_view tracer = status ? field(*status, "TracerPid") : std::string_view();
    if (const uint64_t by = take_number(tracer); by != 0)
        return Error(CR_EPTRACED, fmt::format("process {} is traced by process {}, so that Cryo "
                                              "cannot enter it: detach that first",
                                              proc.pid(), by));
    return {};
}

} // namespace cryo::capture
