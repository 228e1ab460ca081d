// SPDX-License-Identifier: Apache-2.0
// Where the agent of a process listens, and whether connecting there is safe.
#include "capture/session/agent_door.hpp"

#include "base/clock.hpp"
#include "capture/session/deafness.hpp"
#include "capture/session/enterable.hpp"
#include "capture/session/open_door.hpp"
#include "capture/session/patience.hpp"
#include "libcr.h"
#include "look/auxiliary.hpp"
#include "protocol/agent.hpp"
#include "protocol/door.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace cryo::capture {

namespace {

// The pid inside the process's own pid namespace is the last one of NSpid.
uint64_t inner_pid(std::string_view status)
{
    std::string_view pids = field(status, "NSpid");
    uint64_t pid = 0;
    while (!pids.empty())
        pid = take_number(pids);
    return pid;
}

// Connecting raises the checkpoint signal in the process. It must catch that signal, and its user's
// signal queue must have room: otherwise the signal would kill the process.
Result<void> check_doorbell(const Proc &proc, std::string_view status)
{
    const int signal = AgentDoor::signal_of(proc);
    std::string_view caught = field(status, "SigCgt");
    const bool catches = (take_number(caught, 16) >> (signal - 1) & 1) != 0;
    // There is no agent in such a program, even if it catches the signal.
    if (has_gained_rights(proc))
        return Error(CR_ENOSUPPORT,
                     fmt::format("process {} runs a setuid or setgid program, or one with "
                                 "capabilities of its own: Cryo cannot enter it",
                                 proc.pid()),
                     Reason::not_enterable);
    if (!catches)
        return not_hearing(proc, signal);
    std::string_view queue = field(status, "SigQ");
    const uint64_t used = take_number(queue);
    queue.remove_prefix(std::min<size_t>(1, queue.size()));
    const uint64_t most = take_number(queue);
    constexpr uint64_t needed = 64;
    if (most < needed)
        return Error(ENOTSUP,
                     fmt::format("process {} may have {} signals waiting only (ulimit -i), and "
                                 "Cryo needs {} for a moment: raise its limit (prlimit --pid {} "
                                 "--sigpending={})",
                                 proc.pid(), most, needed, proc.pid(), 2 * needed));
    if (used + needed > most)
        return Error(EAGAIN, fmt::format("process {}: its user's queue of signals is nearly full; "
                                         "try again later",
                                         proc.pid()));
    return {};
}

// The agent needs some descriptors in the stop: the connection, and the channels for pages. The
// program's limits apply to it, but it may exceed the soft one. The size of the table is an upper
// bound of the open descriptors; they are counted only if that bound is too high.
Result<void> check_room(const Proc &proc, std::string_view status)
{
    constexpr uint64_t needed = 4;
    std::string_view table = field(status, "FDSize");
    const Result<std::string> limits = proc.read("limits");
    const size_t at = limits ? limits->find("Max open files") : std::string::npos;
    if (at == std::string::npos)
        return {};
    std::string_view line = std::string_view(*limits).substr(at + strlen("Max open files"));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    take_word(line); // the soft limit
    std::string_view hard = take_word(line);
    const uint64_t most = take_number(hard);
    if (most >= take_number(table) + needed)
        return {};
    const Result<std::vector<int>> open = proc.numbers("fd");
    if (!open)
        return {}; // reported elsewhere
    const auto below = static_cast<uint64_t>(
        std::ranges::count_if(*open, [most](int fd) { return static_cast<uint64_t>(fd) < most; }));
    if (below + needed <= most)
        return {};
    return Error(EBUSY, fmt::format("process {} has {} of the {} descriptors that it may ever "
                                    "have, and Cryo needs {} for a moment: let it close some, or "
                                    "raise its limit (prlimit --pid {} --nofile=:{})",
                                    proc.pid(), below, most, needed, proc.pid(), most + needed));
}

Error may_not_be_inspected(pid_t pid)
{
    return {EPERM, fmt::format("process {} belongs to somebody else, or may not be inspected (not "
                               "dumpable, setuid)",
                               pid)};
}

bool is_door(const Proc &proc, uint64_t pid, int fd)
{
    constexpr std::string_view end = " (deleted)";
    constexpr size_t digits = 16;
    const Result<std::string> target = proc.link(fmt::format("fd/{}", fd));
    if (!target || !target->ends_with(end))
        return false;
    std::string_view name(*target);
    name.remove_suffix(end.size());
    name.remove_prefix(name.rfind('/') + 1);
    const std::string known = fmt::format("{}{}.", agent::door_name, pid);
    return name.starts_with(known) && name.size() == known.size() + digits &&
           name.find_first_not_of("0123456789abcdef", known.size()) == std::string_view::npos;
}

// The path through the process's own descriptor to its agent's socket. Following it requires the
// right to inspect the process, and only the process can put a socket there. Empty: none.
Result<std::string> find_door(const Proc &proc, uint64_t pid)
{
    for (const int usual : {agent::door_fd, agent::low_door_fd}) {
        if (is_door(proc, pid, usual))
            return proc.path(fmt::format("fd/{}", usual));
    }
    Result<std::vector<int>> all = proc.numbers("fd");
    if (!all && all.error().code() == EACCES)
        return may_not_be_inspected(proc.pid());
    for (const int fd : all ? *all : std::vector<int>()) {
        if (is_door(proc, pid, fd))
            return proc.path(fmt::format("fd/{}", fd));
    }
    return std::string();
}

// Returns 0 or an errno. EAGAIN: so many connections are pending already that there is no room for
// another one, as a process leaves them that does not hear the signal.
int connect_soon(int socket, const sockaddr_un &address, pid_t pid)
{
    const uint64_t begun = now_ns();
    Deafness deafness(pid);
    int failed = 0;
    do {
        limit_sends(socket, uint64_t{look_again_ms} * 1'000'000);
        const auto *to = reinterpret_cast<const sockaddr *>(&address);
        failed = connect(socket, to, sizeof(address)) == 0 ? 0 : errno;
    } while (failed == EAGAIN && now_ns() - begun < default_silence_ns &&
             !(deafness.look(now_ns()) && deafness.reason() == Deafness::Reason::blocks));
    limit_sends(socket, 0);
    return failed;
}

// Checks that the process itself listens, not another one whose socket it merely holds: the
// kernel has recorded the listener and its ids. Like ptrace, this compares all of the process's
// user ids.
Result<void> check_listener(int connection, const Proc &proc)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return Error::from_errno(fmt::format("asking who listens for process {}", proc.pid()),
                                 errno);
    if (peer.pid != proc.pid())
        return Error(
            EPERM,
            fmt::format("process {} does not listen for requests: process {} listens in its place",
                        proc.pid(), peer.pid));
    const Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    std::string_view ids = field(*status, "Uid");
    for (int i = 0; i < 3 && peer.uid != 0; i++) { // real, effective, saved
        if (const uint64_t id = take_number(ids); id != peer.uid)
            return Error(EPERM, fmt::format("process {} does not listen for requests: the listener "
                                            "has user id {}, and the process {}",
                                            proc.pid(), peer.uid, id));
    }
    return {};
}

// A connection would bring the agent into the program, whose system calls would be passed on there.
Result<void> check_knocking(const std::string &door, pid_t pid)
{
    struct stat status;
    if (stat(door.c_str(), &status) != 0)
        return {};
    if ((status.st_mode & agent::confined_inside) != 0)
        return Error(ENOTSUP, fmt::format("process {} is under rules of Landlock that it, or the "
                                          "program that executed it, has put on itself: these "
                                          "cannot be read back, and a restored process would be "
                                          "without them; start it without",
                                          pid));
    if ((status.st_mode & agent::no_knocking) == 0)
        return {};
    return Error(ENOTSUP,
                 fmt::format("process {} has had system calls passed to itself "
                             "(PR_SET_SYSCALL_USER_DISPATCH): Cryo's would be passed to it, too, "
                             "and could end it; start it without cr_run, since it cannot be saved",
                             pid));
}

} // namespace

bool has_open_door(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    const Result<std::string> door = find_door(proc, status ? inner_pid(*status) : 0);
    return door && !door->empty();
}

Result<void> check_open_door(const Proc &proc)
{
    const Result<AgentDoor> door = AgentDoor::find(proc.pid());
    if (!door)
        return door.error();
    const Result<std::string> status = proc.read("status");
    const Result<std::string> path = find_door(proc, status ? inner_pid(*status) : 0);
    return path && !path->empty() ? check_knocking(*path, proc.pid()) : not_listening(proc.pid());
}

namespace {

// What the agent has written at its door; 0: nothing.
int told_at_door(const Proc &proc)
{
    constexpr int64_t most = int64_t{agent::door_filter} * (agent::most_door_filters + 1);
    const Result<std::string> status = proc.read("status");
    const Result<std::string> door = find_door(proc, status ? inner_pid(*status) : 0);
    struct stat changed;
    const bool is_told = door && !door->empty() && stat(door->c_str(), &changed) == 0 &&
                         changed.st_mtim.tv_sec >= 1 && changed.st_mtim.tv_sec < most;
    return is_told ? static_cast<int>(changed.st_mtim.tv_sec) : 0;
}

} // namespace

int AgentDoor::signal_of(const Proc &proc)
{
    // An agent that does not use the usual signal publishes its own at its socket. The environment
    // tells the signal of agents of older releases.
    const int told = told_at_door(proc) % agent::door_filter;
    if (told >= 1 && told <= agent::max_signals)
        return told;
    Result<std::string> environment = proc.read("environ");
    const std::string all = '\0' + (environment ? *environment : std::string());
    const std::string key = std::string("\0CRYO_SIGNAL=", 13);
    const size_t at = all.find(key);
    const int named = at != std::string::npos ? atoi(all.c_str() + at + key.size()) : 0;
    return named >= 1 && named <= agent::max_signals ? named : SIGRTMAX;
}

unsigned AgentDoor::filters_of(const Proc &proc)
{
    return static_cast<unsigned>(told_at_door(proc) / agent::door_filter);
}

Error AgentDoor::silent(const Proc &proc, bool takes)
{
    const int signal = signal_of(proc);
    const Result<std::string> status = proc.read("status");
    const auto has = [signal](std::string_view text, std::string_view key) {
        std::string_view set = field(text, key);
        return (take_number(set, 16) >> (signal - 1) & 1) != 0;
    };
    std::string why;
    if (status && !has(*status, "SigCgt"))
        why =
            "it has replaced the action of the checkpoint signal; cr_run --signal chooses another "
            "one";
    const Result<std::vector<int>> threads = proc.numbers("task");
    bool all_block = true;
    int waits = 0; // in the kernel, where it takes no signals
    for (const int tid : threads ? *threads : std::vector<int>()) {
        const Result<std::string> of_thread = proc.read(fmt::format("task/{}/status", tid));
        if (!of_thread)
            continue; // it has ended
        const std::string_view state = field(*of_thread, "State");
        if (state.starts_with('Z') || state.starts_with('X'))
            continue;
        all_block = all_block && has(*of_thread, "SigBlk");
        if (state.starts_with('D'))
            waits = tid;
    }
    if (why.empty() && all_block)
        why = "it blocks the checkpoint signal; cr_run --signal chooses another one";
    if (why.empty() && waits != 0)
        why =
            fmt::format("thread {} waits in the kernel (for a disk, a file server, a child made by "
                        "vfork); try again when that is over",
                        waits);
    if (why.empty() && takes)
        why = "it takes the checkpoint signal itself, by a system call of its own; cr_run --signal "
              "chooses another one";
    if (why.empty())
        why =
            "none of its threads has come to hear the checkpoint signal; the machine may have too "
            "much to do: try again";
    return {EBUSY, fmt::format("process {} does not answer: {}", proc.pid(), why)};
}

Result<std::string> AgentDoor::address_of(const Proc &proc)
{
    Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    Result<std::string> ns = proc.link("ns/pid");
    if (!ns)
        return may_not_be_inspected(proc.pid());
    return fmt::format("cryo.{}.{}", *ns, inner_pid(*status));
}

Result<AgentDoor> AgentDoor::find(pid_t pid)
{
    const Proc proc(pid);
    Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", pid));
    if (!proc.link("ns/pid"))
        return may_not_be_inspected(pid);
    Fd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!connection)
        return Error::from_errno("socket", errno);
    if (Result<void> open = check_enterable(proc); !open)
        return open.error();
    if (Result<void> safe = check_doorbell(proc, *status); !safe)
        return safe.error();
    if (Result<void> room = check_room(proc, *status); !room)
        return room.error();
    Result<std::string> path = find_door(proc, inner_pid(*status));
    if (!path)
        return path.error();
    return AgentDoor(pid, std::move(connection), std::move(*path));
}

// A program that has executed another one since no longer listens at its old address.
Result<Fd> AgentDoor::enter() &&
{
    const Proc proc(pid_);
    if (Result<void> allowed = check_knocking(path_, pid_); !allowed)
        return allowed.error();
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path_.data(), std::min(path_.size(), sizeof(address.sun_path) - 1));
    const int refused = path_.empty() ? ECONNREFUSED : connect_soon(socket_.get(), address, pid_);
    if (refused == EAGAIN)
        return silent(proc);
    if (refused != 0)
        return not_listening(pid_);
    if (Result<void> known = check_listener(socket_.get(), proc); !known)
        return known.error();
    return std::move(socket_);
}

} // namespace cryo::capture
