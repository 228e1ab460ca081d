// SPDX-License-Identifier: Apache-2.0
#include "look/thread_filters.hpp"

#include "look/proc.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

Error not_told(pid_t tid, int error)
{
    if (error == EACCES)
        return {EPERM, fmt::format("thread {}: the kernel tells its seccomp filters to root alone "
                                   "(CAP_SYS_ADMIN), outside of containers, and to nobody under a "
                                   "filter",
                                   tid)};
    if (error == EIO || error == EINVAL)
        return {ENOTSUP, fmt::format("thread {}: this kernel does not tell its seccomp filters "
                                     "(CONFIG_CHECKPOINT_RESTORE)",
                                     tid)};
    return Error::from_errno(fmt::format("thread {}: reading its seccomp filters", tid), error);
}

} // namespace

bool may_read_filters()
{
    const Result<std::string> status = Proc(getpid()).read("status");
    std::string_view effective = status ? field(*status, "CapEff") : std::string_view();
    return (take_number(effective, 16) >> CAP_SYS_ADMIN & 1) != 0 &&
           prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0;
}

Result<std::vector<CallFilter>> read_filters(pid_t tid, unsigned left_out)
{
    std::vector<CallFilter> filters;
    for (uint64_t number = left_out;; number++) {
        auto *const at = reinterpret_cast<void *>(number);
        const long size = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, at, nullptr);
        if (size < 0 && errno == ENOENT)
            return filters;
        if (size < 0)
            return not_told(tid, errno);
        CallFilter filter;
        filter.code.resize(static_cast<size_t>(size));
        __ptrace_seccomp_metadata more = {number, 0};
        if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, at, filter.code.data()) != size ||
            ptrace(PTRACE_SECCOMP_GET_METADATA, tid, sizeof(more), &more) != sizeof(more))
            return not_told(tid, errno);
        filter.logs = (more.flags & SECCOMP_FILTER_FLAG_LOG) != 0;
        filters.push_back(std::move(filter));
    }
}

bool is_speculation_lost(std::string_view status)
{
    return field(status, "Speculation_Store_Bypass") == "thread force mitigated" ||
           field(status, "SpeculationIndirectBranch") == "conditional force disabled";
}

} // namespace cryo::capture
