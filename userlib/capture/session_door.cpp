// SPDX-License-Identifier: Apache-2.0
// The part of a session before there is one: where the agent of a process listens, and that asking
// there is safe.
#include "capture/session.hpp"

#include "capture/enterable.hpp"
#include "capture/proc.hpp"
#include "libcr.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace cryo::capture {

namespace {

// The pid inside the process's own pid namespace is the last of NSpid.
uint64_t inner_pid(std::string_view status)
{
    std::string_view pids = field(status, "NSpid");
    uint64_t pid = 0;
    while (!pids.empty())
        pid = take_number(pids);
    return pid;
}

// The dynamic loader preloads nothing into what gains privileges by being executed.
bool gained_privileges(const Proc &proc)
{
    Result<std::string> auxv = proc.read("auxv");
    uint64_t pair[2];
    for (size_t at = 0; auxv && at + sizeof(pair) <= auxv->size(); at += sizeof(pair)) {
        memcpy(pair, &(*auxv)[at], sizeof(pair));
        if (pair[0] == AT_SECURE)
            return pair[1] != 0;
    }
    return false;
}

// Connecting raises the checkpoint signal in the process. It must be one that the process catches,
// and there must be room in the queue of its user: else the signal would end the process.
Result<void> check_doorbell(const Proc &proc, std::string_view status)
{
    const int signal = AgentSession::signal_of(proc);
    std::string_view caught = field(status, "SigCgt");
    const bool catches = (take_number(caught, 16) >> (signal - 1) & 1) != 0;
    if (!catches && gained_privileges(proc))
        return Error(CR_ENOSUPPORT,
                     fmt::format("process {} runs a setuid or setgid program, or one with "
                                 "capabilities of its own: Cryo cannot enter it",
                                 proc.pid()));
    if (!catches)
        return Error(ESRCH, fmt::format("process {} does not hear Cryo: {}", proc.pid(),
                                        why_outside(proc, signal)));
    std::string_view queue = field(status, "SigQ");
    const uint64_t used = take_number(queue);
    queue.remove_prefix(std::min<size_t>(1, queue.size()));
    if (used + 64 > take_number(queue))
        return Error(EAGAIN, fmt::format("process {}: its user's queue of signals is nearly full; "
                                         "try again later",
                                         proc.pid()));
    return {};
}

} // namespace

int AgentSession::signal_of(const Proc &proc)
{
    Result<std::string> environment = proc.read("environ");
    const std::string all = '\0' + (environment ? *environment : std::string());
    const std::string key = std::string("\0CRYO_SIGNAL=", 13);
    const size_t at = all.find(key);
    return at != std::string::npos ? atoi(all.c_str() + at + key.size()) : SIGRTMAX;
}

Error AgentSession::silent(const Proc &proc)
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
    int waits = 0; // in the kernel, where no signal is heard
    for (const int tid : threads ? *threads : std::vector<int>()) {
        const Result<std::string> of_thread = proc.read(fmt::format("task/{}/status", tid));
        if (!of_thread)
            continue; // it has ended
        all_block = all_block && has(*of_thread, "SigBlk");
        if (field(*of_thread, "State").starts_with('D'))
            waits = tid;
    }
    if (why.empty() && all_block)
        why = "it blocks the checkpoint signal; cr_run --signal chooses another one";
    if (why.empty() && waits != 0)
        why =
            fmt::format("thread {} waits in the kernel (for a disk, a file server, a child made by "
                        "vfork); try again when that is over",
                        waits);
    if (why.empty())
        why =
            "none of its threads has come to hear the checkpoint signal; the machine may have too "
            "much to do: try again";
    return {EBUSY, fmt::format("process {} does not answer: {}", proc.pid(), why)};
}

Result<std::string> AgentSession::address_of(const Proc &proc)
{
    Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    Result<std::string> ns = proc.link("ns/pid");
    if (!ns)
        return Error(EPERM, fmt::format("process {} belongs to somebody else, or may not be "
                                        "inspected (not dumpable, setuid)",
                                        proc.pid()));
    return fmt::format("cryo.{}.{}", *ns, inner_pid(*status));
}

Result<AgentSession::Door> AgentSession::door_of(pid_t pid)
{
    const Proc proc(pid);
    Result<std::string> address = address_of(proc);
    if (!address)
        return address.error();
    Result<std::string> status = proc.read("status");
    if (!status)
        return Error(ESRCH, fmt::format("no process {}", pid));
    Fd connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!connection)
        return Error::from_errno("socket", errno);
    if (Result<void> open = check_enterable(proc); !open)
        return open.error();
    if (Result<void> safe = check_doorbell(proc, *status); !safe)
        return safe.error();
    return Door{pid, std::move(connection), std::move(*address)};
}

// A program that has executed another one since does not listen at its door any more.
Result<AgentSession> AgentSession::enter(Door door)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path + 1, door.address.data(), door.address.size());
    const auto length =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + door.address.size());
    if (::connect(door.socket.get(), reinterpret_cast<const sockaddr *>(&address), length) != 0)
        return Error(ESRCH,
                     fmt::format("process {} does not listen: {}", door.pid, why_deaf(door.pid)));
    // Somebody else could have taken the name: the listener must be the process that we mean.
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(door.socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.pid != door.pid)
        return Error(EPERM, fmt::format("process {} does not listen: process {} has taken its "
                                        "address",
                                        door.pid, peer.pid));
    return AgentSession(std::move(door.socket), door.pid);
}

} // namespace cryo::capture
