// SPDX-License-Identifier: Apache-2.0
// Process state other than memory, as /proc shows it.
#include "look/sharing.hpp"
#include "restore/compare.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <optional>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace cryo::restore {

using capture::field;
using capture::take_number;
using capture::take_word;

namespace {

uint64_t bit(uint32_t signal)
{
    return uint64_t(1) << (signal - 1);
}

Result<void> all_same(const std::string &what, std::string_view now,
                      std::initializer_list<uint64_t> saved)
{
    for (const uint64_t one : saved) {
        if (Result<void> same = same_number(what, static_cast<int64_t>(take_number(now)),
                                            static_cast<int64_t>(one));
            !same)
            return same;
    }
    return {};
}

Result<void> compare_ids(const Comparison &c, std::string_view status)
{
    const image::Process &saved = c.saved.process;
    Result<void> same = same_number("its id", c.pid, saved.pid);
    if (same)
        same = all_same("a user id", field(status, "Uid"),
                        {saved.uid, saved.euid, saved.suid, saved.fsuid});
    if (same)
        same = all_same("a group id", field(status, "Gid"),
                        {saved.gid, saved.egid, saved.sgid, saved.fsgid});
    // Without a leader in the tree, session and group are the restarting process's.
    if (same && c.kin.session != nobody)
        same = same_number("its session", getsid(c.pid), saved.sid);
    if (same && c.kin.group != nobody)
        same = same_number("its process group", getpgid(c.pid), saved.pgid);
    return same;
}

// More privileges than saved are an error; fewer are reported when the restart is planned.
Result<void> compare_privileges(const Comparison &c, std::string_view status)
{
    const image::Process &saved = c.saved.process;
    const struct {
        const char *name;
        uint64_t set;
    } table[] = {{"CapInh", saved.cap_inheritable},
                 {"CapPrm", saved.cap_permitted},
                 {"CapEff", saved.cap_effective},
                 {"CapAmb", saved.cap_ambient}};
    for (const auto &[name, set] : table) {
        std::string_view text = field(status, name);
        const uint64_t now = take_number(text, 16);
        if ((now & ~set) != 0)
            return same_hex(fmt::format("the set of capabilities {}", name), now, set);
    }
    std::string_view text = field(status, "NoNewPrivs");
    if (saved.no_new_privs && take_number(text) == 0)
        return difference("it may gain privileges (no_new_privs is off)");
    return {};
}

Result<void> compare_actions(const Comparison &c, std::string_view status)
{
    constexpr uint64_t ignored = 1; // SIG_IGN
    uint64_t caught = 0, ignores = 0;
    for (const image::Sigaction &action : c.saved.of<image::Sigaction>())
        (action.handler == ignored ? ignores : caught) |=
            action.handler != 0 ? bit(action.signal) : 0;
    std::string_view text = field(status, "SigCgt");
    Result<void> same =
        same_hex("the set of signals with a handler", take_number(text, 16), caught);
    text = field(status, "SigIgn");
    return same ? same_hex("the set of ignored signals", take_number(text, 16), ignores) : same;
}

// Signals that may have arrived since: from timers, ended children, files.
uint64_t may_come(const Saved &saved)
{
    uint64_t set = bit(SIGCHLD) | bit(SIGXCPU);
    for (const image::Timer &timer : saved.of<image::Timer>()) {
        set |= timer.kind == image::TimerKind::itimer_real                  ? bit(SIGALRM)
               : timer.kind == image::TimerKind::itimer_virtual             ? bit(SIGVTALRM)
               : timer.kind == image::TimerKind::itimer_prof                ? bit(SIGPROF)
               : timer.kind == image::TimerKind::posix && timer.signal != 0 ? bit(timer.signal)
                                                                            : 0;
    }
    for (const auto &[id, file] : saved.open_files()) {
        if (file.owner != 0)
            set |= bit(file.owner_signal != 0 ? file.owner_signal : SIGIO);
    }
    return set;
}

} // namespace

Result<void> compare_pending(const Comparison &c, uint32_t tid, std::string_view status)
{
    uint64_t saved = 0;
    for (const image::PendingSignal &signal : c.saved.of<image::PendingSignal>())
        saved |= signal.tid == tid ? bit(signal.signal) : 0;
    std::string_view text = field(status, tid == 0 ? "ShdPnd" : "SigPnd");
    const uint64_t now = take_number(text, 16);
    if ((saved & ~now) == 0 && (now & ~saved & ~may_come(c.saved)) == 0)
        return {};
    return same_hex("the set of pending signals", now, saved);
}

namespace {

// Limits that are not permitted here are reported when the restart is planned.
Result<void> compare_limits(const Comparison &c)
{
    for (const image::Rlimit &saved : c.saved.of<image::Rlimit>()) {
        rlimit now, ours;
        if (saved.resource == RLIMIT_CORE ||
            prlimit(c.pid, static_cast<__rlimit_resource>(saved.resource), nullptr, &now) != 0 ||
            getrlimit(static_cast<__rlimit_resource>(saved.resource), &ours) != 0)
            continue;
        const std::string what = fmt::format("resource limit {}", saved.resource);
        if (saved.hard <= ours.rlim_max) {
            if (Result<void> same = same_hex(what + " (hard)", now.rlim_max, saved.hard); !same)
                return same;
        }
        if (Result<void> same = same_hex(what, now.rlim_cur, std::min(saved.soft, now.rlim_max));
            !same)
            return same;
    }
    return {};
}

Result<void> compare_places(const Comparison &c)
{
    const capture::Proc proc = c.proc();
    const image::Process &saved = c.saved.process;
    Result<std::string> cwd = proc.link("cwd");
    Result<std::string> exe = proc.link("exe");
    Result<std::string> arguments = proc.read("cmdline");
    if (!cwd || !exe || !arguments)
        return !cwd ? cwd.error() : !exe ? exe.error() : arguments.error();
    Result<void> same;
    if (saved.cwd_file == 0)
        same = same_text("its working directory", *cwd, saved.cwd);
    else if (!cwd->ends_with(" (deleted)"))
        same = difference(fmt::format("its working directory is {}, and was removed", *cwd));
    if (same && c.plan.exe == saved.exe)
        same = same_text("its program", *exe, saved.exe);
    if (same && *arguments != c.saved.arguments)
        same = difference("its arguments, as others see them, are not those in the image");
    return same;
}

Result<void> compare_timers(const Comparison &c)
{
    std::vector<int64_t> saved, now;
    for (const image::Timer &timer : c.saved.of<image::Timer>()) {
        if (timer.kind == image::TimerKind::posix)
            saved.push_back(timer.id);
    }
    Result<std::string> text = c.proc().read("timers");
    if (!text) // not every kernel has it
        return {};
    for (std::string_view rest = *text; !rest.empty();) {
        std::string_view line = capture::take_line(rest);
        if (line.starts_with("ID:")) {
            take_word(line);
            now.push_back(static_cast<int64_t>(take_number(line)));
        }
    }
    std::ranges::sort(saved);
    std::ranges::sort(now);
    return now == saved ? Result<void>()
                        : difference(fmt::format("it has {} POSIX timers, with other ids than the "
                                                 "{} in the image",
                                                 now.size(), saved.size()));
}

// A child that shares more than it did would change what is the parent's, too. That is seen of the
// working directory only: processes without an I/O context, or without operations to undo, are
// alike.
Result<void> compare_sharing(const Comparison &c, std::string_view status)
{
    std::string_view text = field(status, "PPid");
    const auto parent = static_cast<pid_t>(take_number(text));
    constexpr uint64_t flags[] = {CLONE_FS, CLONE_IO, CLONE_SYSVSEM};
    for (const uint64_t flag : flags) {
        const bool before = (c.saved.process.shares & flag) != 0;
        if (c.kin.parent == nobody || (!before && flag != CLONE_FS))
            continue;
        const std::optional<bool> now = capture::are_sharers(flag, c.pid, parent);
        if (now.value_or(before) != before)
            return difference(fmt::format(
                "it {} {} with its parent, and {} in the image", *now ? "shares" : "does not share",
                capture::what_is_shared(flag), before ? "does" : "does not"));
    }
    return {};
}

} // namespace

Result<void> compare_process(const Comparison &c)
{
    const Result<std::string> status = c.proc().read("status");
    if (!status)
        return status.error();
    Result<void> same = compare_ids(c, *status);
    if (same)
        same = compare_privileges(c, *status);
    if (same) {
        std::string_view umask = field(*status, "Umask");
        same = same_text("the umask", fmt::format("{:o}", take_number(umask, 8)),
                         fmt::format("{:o}", c.saved.process.umask));
    }
    if (same)
        same = compare_sharing(c, *status);
    if (same)
        same = compare_actions(c, *status);
    if (same)
        same = compare_pending(c, 0, *status);
    for (const auto step : {compare_limits, compare_places, compare_timers}) {
        if (same)
            same = step(c);
    }
    return same;
}

} // namespace cryo::restore
