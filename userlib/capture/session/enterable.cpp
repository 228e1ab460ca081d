// SPDX-License-Identifier: Apache-2.0
#include "capture/session/enterable.hpp"

#include "capture/session/agent_door.hpp"
#include "libcr.h"
#include "look/filters.hpp"
#include "look/identity.hpp"
#include "look/members.hpp"
#include "look/namespaces.hpp"
#include "look/thread_filters.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <linux/seccomp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// Whether the main thread has ended (pthread_exit) while others live on indefinitely. An exiting
// process looks the same for a moment, because its threads end one after the other.
bool has_lost_main_thread(pid_t pid)
{
    constexpr int looks = 5;
    constexpr timespec pause = {0, 10'000'000};
    for (int i = 0; i < looks; i++) {
        const Result<Relation> now = relation_of(pid);
        if (!now || !now->ended || now->zombie || has_ended(pid))
            return false;
        nanosleep(&pause, nullptr);
    }
    return true;
}

// The paths that the kernel shows of a process in a container are names of other files here.
bool has_other_files(const Proc &proc)
{
    struct stat ours, theirs;
    return stat("/", &ours) == 0 && stat(proc.path("root/").c_str(), &theirs) == 0 &&
           (ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino);
}

uint64_t innermost_pid(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    std::string_view pids = status ? field(*status, "NSpid") : std::string_view();
    uint64_t pid = 0;
    while (!pids.empty())
        pid = take_number(pids);
    return pid;
}

} // namespace

std::optional<FilterObstacle> filter_obstacle(const Proc &proc, std::string_view status)
{
    std::string_view text = field(status, "Seccomp");
    const uint64_t mode = take_number(text);
    if (mode == SECCOMP_MODE_DISABLED)
        return {};
    if (mode == SECCOMP_MODE_STRICT)
        return FilterObstacle{"runs under seccomp in its strict mode",
                              "start it without: what Cryo calls would end it"};
    const unsigned known = AgentDoor::filters_of(proc);
    const unsigned count = count_filters(status);
    if (count != 0 && count == known)
        return {};
    FilterObstacle found;
    found.what = "runs under a seccomp filter of its own";
    if (known == 0)
        found.what += ", or one that cr_run has not found harmless";
    // With fewer than its agent knows of, it is not known which are its own.
    found.is_readable = count > known && may_read_filters();
    found.way_out = count == 0
                        ? "start it without one; this kernel does not tell how many there are"
                        : "only root (CAP_SYS_ADMIN), outside of containers and under no filter, "
                          "can read it: let root save it, or start it without the filter";
    return found;
}

Result<void> check_filters(const Proc &proc, bool readable)
{
    Result<std::vector<int>> threads = proc.numbers("task");
    if (!threads)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    for (const int tid : *threads) {
        const Result<std::string> status = proc.read(fmt::format("task/{}/status", tid));
        if (!status)
            continue; // it has ended
        const auto obstacle = filter_obstacle(proc, *status);
        if (obstacle && !(readable && obstacle->is_readable))
            return Error(ENOTSUP,
                         fmt::format("process {}{} {}: {}", proc.pid(),
                                     tid == proc.pid() ? "" : fmt::format(" (thread {})", tid),
                                     obstacle->what, obstacle->way_out));
    }
    return {};
}

namespace {

Result<void> check_tables(const Proc &proc)
{
    Result<std::vector<int>> threads = proc.numbers("task");
    if (!threads)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    for (const int tid : *threads) {
        if (const auto table = own_table(proc.pid(), tid))
            return Error(
                ENOTSUP,
                fmt::format("process {}{} has {} of its own (unshare(2)), and Cryo restores "
                            "those of a whole process only: do without unshare "
                            "in threads, or use processes instead",
                            proc.pid(), tid == proc.pid() ? "" : fmt::format(" (thread {})", tid),
                            *table));
    }
    return {};
}

} // namespace

Result<void> check_enterable(const Proc &proc)
{
    if (has_lost_main_thread(proc.pid()))
        return Error(ENOTSUP, fmt::format("process {}: its main thread has ended before the others "
                                          "(pthread_exit), and Cryo cannot save it so: let main() "
                                          "wait for them (pthread_join) instead",
                                          proc.pid()));
    if (const std::string why = why_not_preloadable(proc.path("exe")); !why.empty())
        return Error(CR_ENOSUPPORT,
                     fmt::format("process {} {}: Cryo cannot enter it{}", proc.pid(), why,
                                 why == statically_linked
                                     ? "; link it dynamically (a program in Go: build it with cgo)"
                                     : ""),
                     Reason::not_enterable);
    if (Result<std::string> root = proc.link("root"); root && *root != "/")
        return Error(ENOTSUP, fmt::format("process {} has another root directory, {}: run "
                                          "cr_checkpoint inside it",
                                          proc.pid(), *root));
    if (has_other_files(proc))
        return Error(ENOTSUP, fmt::format("process {} has other files than cr_checkpoint, as in a "
                                          "container: run cr_checkpoint inside it, where it is "
                                          "process {} (podman exec, docker exec, kubectl exec)",
                                          proc.pid(), innermost_pid(proc)));
    if (const auto apart = own_namespace(proc))
        return Error(ENOTSUP, fmt::format("process {} has {}, which a restored one would not "
                                          "have: start cr_run inside such a namespace, "
                                          "and run cr_checkpoint and cr_restart there",
                                          proc.pid(), *apart));
    if (Result<void> filters = check_filters(proc, true); !filters)
        return filters;
    return check_tables(proc);
}

bool was_run_by_cr_run(const Proc &proc)
{
    const Result<std::string> environment = proc.read("environ");
    return environment && environment->find("libcr_run.so") != std::string::npos;
}

Error not_hearing(const Proc &proc, int signal)
{
    const auto because = [&](const std::string &why, Reason reason = Reason::other) {
        return Error(
            ESRCH, fmt::format("process {} does not receive Cryo's requests: {}", proc.pid(), why),
            reason);
    };
    if (was_run_by_cr_run(proc))
        return because(fmt::format("it has reset the action of the checkpoint signal {}; cr_run "
                                   "--signal chooses another one",
                                   signal));
    const Result<Relation> now = relation_of(proc.pid());
    if (now && was_run_by_cr_run(Proc(now->ppid)))
        return because(fmt::format("it was not started under cr_run, as its parent {} was: it was "
                                   "executed with CRYO_OUTSIDE, or by a system call of the "
                                   "program's own, without LD_PRELOAD in its environment; leave "
                                   "that in, or end it first",
                                   now->ppid),
                       Reason::no_agent);
    return because(fmt::format("it was not started under cr_run, or it has reset the action of "
                               "the checkpoint signal {}",
                               signal),
                   Reason::no_agent);
}

Error not_listening(pid_t pid)
{
    const auto because = [&](const std::string &why, Reason reason = Reason::other) {
        return Error(ESRCH, fmt::format("process {} does not listen: {}", pid, why), reason);
    };
    const Result<Relation> now = relation_of(pid);
    const auto shares = [&](int what) {
        return now && syscall(SYS_kcmp, pid, now->ppid, what, 0, 0) == 0;
    };
    if (now && now->stopped)
        return because(fmt::format(
            "it was stopped right after its fork, or while it was brought back: continue it with "
            "kill -CONT {}",
            pid));
    if (shares(KCMP_VM))
        return because(fmt::format(
            "it runs in the memory of process {} (vfork, or clone with CLONE_VM)", now->ppid));
    if (shares(KCMP_FILES))
        return because(fmt::format(
            "it shares its descriptors with process {} (clone with CLONE_FILES)", now->ppid));
    return because("it was not started under cr_run, it closed Cryo's descriptor, or it was made "
                   "by a system call of the program's own",
                   Reason::no_agent);
}

} // namespace cryo::capture
