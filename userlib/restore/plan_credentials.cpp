// SPDX-License-Identifier: Apache-2.0
// Privileges and priorities of the process: never more than cr_restart has itself.
#include "look/proc.hpp"
#include "look/thread_flags.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

struct Capabilities {
    uint64_t permitted = 0, effective = 0, inheritable = 0, ambient = 0, bounding = 0;
    uint32_t securebits = 0;
    bool no_new_privs = false;

    bool operator==(const Capabilities &) const = default;
};

// A thread without credentials of its own has those of the process.
Capabilities saved_capabilities(const image::Process &process, const image::Thread &thread)
{
    const auto copy = [](const auto &from) {
        return Capabilities{from.cap_permitted, from.cap_effective, from.cap_inheritable,
                            from.cap_ambient,   from.cap_bounding,  from.securebits,
                            from.no_new_privs};
    };
    return thread.own_credentials ? copy(thread) : copy(process);
}

constexpr uint32_t keep_capabilities = 1 << 4; // SECBIT_KEEP_CAPS: anybody may set it

uint64_t bit(int capability)
{
    return uint64_t(1) << capability;
}

Capabilities our_capabilities()
{
    Capabilities ours;
    __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {};
    syscall(SYS_capget, &head, sets);
    for (int i = 0; i < 2; i++) {
        ours.permitted |= static_cast<uint64_t>(sets[i].permitted) << (32 * i);
        ours.effective |= static_cast<uint64_t>(sets[i].effective) << (32 * i);
        ours.inheritable |= static_cast<uint64_t>(sets[i].inheritable) << (32 * i);
    }
    ours.securebits = static_cast<uint32_t>(std::max(0, prctl(PR_GET_SECUREBITS, 0, 0, 0, 0)));
    ours.no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) > 0;
    for (int i = 0; i < 64; i++) {
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) == 1)
            ours.ambient |= bit(i);
        if (prctl(PR_CAPBSET_READ, i) == 1)
            ours.bounding |= bit(i);
    }
    return ours;
}

void plan_groups(Planning &p, const Capabilities &ours)
{
    std::vector<gid_t> saved, now(static_cast<size_t>(std::max(0, getgroups(0, nullptr))));
    for (size_t i = 0; i < p.saved.process.groups.size(); i++)
        saved.push_back(p.saved.process.groups[i]);
    now.resize(
        static_cast<size_t>(std::max(0, getgroups(static_cast<int>(now.size()), now.data()))));
    std::ranges::sort(saved);
    std::ranges::sort(now);
    if (saved == now)
        return;
    if ((ours.effective & bit(CAP_SETGID)) != 0) {
        p.plan.program.call(
            "setting the supplementary groups", SYS_setgroups,
            {value(saved.size()), p.plan.program.data(saved.data(), saved.size() * sizeof(gid_t))});
        return;
    }
    p.plan.notices.push_back(
        p.options.own_pid_namespace
            ? std::string("supplementary groups are cr_restart's, and have no names in its user "
                          "namespace")
            : fmt::format("supplementary groups are cr_restart's: {} here, {} when the image was "
                          "taken",
                          now.size(), saved.size()));
}

// Checks what threads must drop or set for good, which may need a privilege that we lack.
Result<void> check_credentials(Planning &p, const Capabilities &ours)
{
    if ((ours.effective & bit(CAP_SETPCAP)) != 0)
        return {};
    uint64_t surplus = 0;
    for (const image::Thread &thread : p.saved.threads()) {
        const Capabilities saved = saved_capabilities(p.saved.process, thread);
        surplus |= ours.bounding & ~saved.bounding;
        const uint32_t missing = saved.securebits & ~ours.securebits & ~keep_capabilities;
        if (missing != 0 && !p.options.force)
            return Error(EPERM, fmt::format("thread {} had securebits {:x}, which only a process "
                                            "with CAP_SETPCAP can set; restart it with that "
                                            "capability (--force does without)",
                                            thread.tid, missing));
    }
    if (surplus != 0)
        p.plan.notices.push_back(
            fmt::format("the bounding set of capabilities is cr_restart's: it has {:x} more than "
                        "when the image was taken",
                        surplus));
    return {};
}

// Writes a number to one of the process's own files in /proc.
void plan_number(Planning &p, const char *name, const std::string &text)
{
    Program &program = p.plan.program;
    const std::string path = fmt::format("/proc/self/{}", name);
    const uint16_t file = program.slot();
    program.call("opening " + path, SYS_openat,
                 {value(AT_FDCWD), program.text(path), value(O_WRONLY | O_CLOEXEC)}, file);
    program.call("writing " + path, SYS_write,
                 {result(file), program.text(text), value(text.size())});
    program.call("closing " + path, SYS_close, {result(file)});
}

void plan_oom_score(Planning &p, const Capabilities &ours)
{
    if (p.options.rehearse)
        return; // it is set to be killed first when memory runs out
    int now = 0;
    std::ifstream("/proc/self/oom_score_adj") >> now;
    const int saved = p.saved.process.oom_score_adj;
    if (saved < now && (ours.effective & bit(CAP_SYS_RESOURCE)) == 0)
        p.plan.notices.push_back(fmt::format("oom_score_adj is {} as cr_restart's, {} when the "
                                             "image was taken: lowering it needs a privilege",
                                             now, saved));
    else if (saved != now)
        plan_number(p, "oom_score_adj", std::to_string(saved));
}

void plan_coredump_filter(Planning &p)
{
    uint32_t now = 0;
    std::ifstream("/proc/self/coredump_filter") >> std::hex >> now;
    // Images without this value have 0.
    if (const uint32_t saved = p.saved.process.coredump_filter; saved != now && saved != 0)
        plan_number(p, "coredump_filter", fmt::format("{:#x}", saved));
}

constexpr int64_t nobody_logged_in = 4294967295;

std::string login_name(int64_t uid)
{
    return uid == nobody_logged_in ? "none" : std::to_string(uid);
}

// The audit log attributes what a process does to the user who has logged in for it. For a restored
// process that is the user who restarts it, whatever the image says, so the id is never set.
void plan_login(Planning &p)
{
    const int64_t saved = p.saved.process.login_uid;
    int64_t now = nobody_logged_in; // so it is on a kernel without audit, too
    std::ifstream("/proc/self/loginuid") >> now;
    if (saved >= 0 && saved != now)
        notice_once(p, fmt::format("the login user id (loginuid) is cr_restart's: {} here, {} when "
                                   "the image was taken",
                                   login_name(now), login_name(saved)));
}

} // namespace

Result<void> plan_credentials(Planning &p)
{
    const Capabilities ours = our_capabilities();
    plan_groups(p, ours);
    plan_login(p);
    plan_oom_score(p, ours);
    plan_coredump_filter(p);
    return check_credentials(p, ours);
}

// The capabilities that the thread had, as far as we have them.
// Dropping privileges needs capabilities itself, so those go last.
void plan_capabilities(Planning &p, const image::Thread &thread, const std::string &who)
{
    const Capabilities saved = saved_capabilities(p.saved.process, thread);
    const Capabilities ours = our_capabilities();
    if (ours == saved)
        return;
    Program &program = p.plan.program;
    const bool may_drop = (ours.effective & bit(CAP_SETPCAP)) != 0;
    const uint64_t have = ours.permitted;
    const auto set = [&](const char *what, uint64_t permitted, uint64_t effective) {
        __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
        __user_cap_data_struct wanted[2] = {};
        for (int i = 0; i < 2; i++) {
            wanted[i].permitted = static_cast<uint32_t>(permitted >> (32 * i));
            wanted[i].effective = static_cast<uint32_t>(effective >> (32 * i));
            wanted[i].inheritable = static_cast<uint32_t>((have & saved.inheritable) >> (32 * i));
        }
        program.call(who + what, SYS_capset,
                     {program.data(&head, sizeof(head)), program.data(wanted, sizeof(wanted))});
    };
    set("setting its inheritable capabilities", ours.permitted, ours.effective);
    for (int i = 0; may_drop && i < 64; i++) {
        if ((ours.bounding & ~saved.bounding & bit(i)) != 0)
            program.call(fmt::format("{}dropping capability {} for good", who, i), SYS_prctl,
                         {value(PR_CAPBSET_DROP), value(i)});
    }
    program.call(
        who + "clearing its ambient capabilities", SYS_prctl,
        {value(PR_CAP_AMBIENT), value(PR_CAP_AMBIENT_CLEAR_ALL), value(0), value(0), value(0)});
    const uint64_t ambient = have & saved.permitted & saved.inheritable & saved.ambient;
    for (int i = 0; i < 64; i++) {
        if ((ambient & bit(i)) != 0)
            program.call(
                fmt::format("{}making capability {} ambient", who, i), SYS_prctl,
                {value(PR_CAP_AMBIENT), value(PR_CAP_AMBIENT_RAISE), value(i), value(0), value(0)});
    }
    if (const uint32_t wanted = ours.securebits | saved.securebits;
        wanted != ours.securebits && may_drop)
        program.call(who + "setting its securebits", SYS_prctl,
                     {value(PR_SET_SECUREBITS), value(wanted), value(0), value(0), value(0)});
    else if ((saved.securebits & ~ours.securebits & keep_capabilities) != 0)
        program.call(who + "keeping capabilities over a change of ids", SYS_prctl,
                     {value(PR_SET_KEEPCAPS), value(1), value(0), value(0), value(0)});
    set("giving up capabilities", have & saved.permitted, have & saved.effective);
    if (saved.no_new_privs)
        program.call(who + "giving up new privileges", SYS_prctl,
                     {value(PR_SET_NO_NEW_PRIVS), value(1), value(0), value(0), value(0)});
}

bool may_put_on_filters(const Planning &p, const image::Thread &thread)
{
    const Capabilities saved = saved_capabilities(p.saved.process, thread);
    const Capabilities ours = our_capabilities();
    return saved.no_new_privs || ours.no_new_privs ||
           (ours.permitted & saved.permitted & saved.effective & bit(CAP_SYS_ADMIN)) != 0;
}

void plan_io_priority(Planning &p, const image::Thread &thread, const std::string &who)
{
    const long now = syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
    if (now < 0 && errno == ENOSYS)
        return; // a kernel without block devices has none
    if (now == thread.ioprio)
        return;
    constexpr uint64_t either = uint64_t(1) << CAP_SYS_ADMIN | uint64_t(1) << CAP_SYS_NICE;
    if (IOPRIO_PRIO_CLASS(thread.ioprio) == IOPRIO_CLASS_RT &&
        (our_capabilities().effective & either) == 0) {
        p.plan.notices.push_back(who + "the real-time class of I/O needs a privilege, and is not "
                                       "set");
        return;
    }
    p.plan.program.call(who + "setting its I/O priority", SYS_ioprio_set,
                        {value(IOPRIO_WHO_PROCESS), value(0), value(thread.ioprio)});
}

// cr_restart's own is inherited, and so is not there as a rule.
void plan_io_flusher(Planning &p, const image::Thread &thread, const std::string &who)
{
    const Result<std::string> stat =
        capture::Proc(getpid()).read(fmt::format("task/{}/stat", gettid()));
    const bool here = stat && capture::is_io_flusher(*stat);
    if (thread.io_flusher == here)
        return;
    if ((our_capabilities().effective & bit(CAP_SYS_RESOURCE)) == 0)
        notice_once(p, fmt::format("the program {} one that helps to write memory out "
                                   "(PR_SET_IO_FLUSHER) here: changing that needs CAP_SYS_RESOURCE",
                                   here ? "is" : "is not"));
    else
        p.plan.program.call(who + "setting whether it helps to write memory out", SYS_prctl,
                            {value(PR_SET_IO_FLUSHER), value(thread.io_flusher ? 1 : 0), value(0),
                             value(0), value(0)});
}

} // namespace cryo::restore
