// SPDX-License-Identifier: Apache-2.0
// The process that a UNIX socket names as its peer's (SO_PEERCRED).
#include "restore/peers.hpp"

#include "restore/choosing_ids.hpp"
#include "restore/open_parts.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

namespace cryo::restore {

namespace {

std::string describe(uint32_t pid, uint32_t uid, uint32_t gid)
{
    constexpr uint32_t none = ~0U; // of a socket that names no peer
    if (pid == 0)
        return uid == none ? "nobody" : "a process without an id here";
    return fmt::format("process {} (user {}, group {})", pid, uid, gid);
}

std::string describe_socket(const Planning &p, uint32_t open_file)
{
    const int fd = descriptor_of(p, open_file);
    return fd < 0 ? "one in a message" : fmt::format("descriptor {}", fd);
}

// The last process that has called listen(2) for this socket; 0: none has.
pid_t listens_at(int fd)
{
    ucred last = {};
    socklen_t size = sizeof(last);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &last, &size) == 0 ? last.pid : 0;
}

} // namespace

Namesakes::Namesakes(const Planning &p) : p_(p), ids_(ids_of(p.options.device))
{
    for (const auto &[pid, member] : p.saved.members)
        ids_.may_choose(static_cast<int32_t>(pid));
}

// Another process may have an id that no member will have. A member that had another user at the
// checkpoint, or has one by a forged image, gets our user.
std::optional<pid_t> Namesakes::named(uint32_t open_file) const
{
    const auto told = p_.saved.of<image::PeerCredentials>().find(open_file);
    if (told == p_.saved.of<image::PeerCredentials>().end() || told->second.pid == 0 ||
        !p_.options.keeps(told->second.pid) || !p_.saved.members.contains(told->second.pid) ||
        told->second.uid != geteuid() || told->second.gid != getegid())
        return std::nullopt;
    return static_cast<pid_t>(told->second.pid);
}

std::optional<pid_t> Namesakes::holder_of(uint32_t open_file) const
{
    for (const auto &[pid, member] : p_.saved.members) {
        if (p_.options.keeps(pid) &&
            std::ranges::find(member->descriptors(), open_file, &image::Descriptor::open_file) !=
                member->descriptors().end())
            return static_cast<pid_t>(pid);
    }
    return std::nullopt;
}

std::optional<Namesake> Namesakes::make(pid_t who, const Namesake::Deed &deed)
{
    makes_pairs_.reset(); // it may have the same id
    if (none_to_be_had_)
        return std::nullopt;
    const image::Process &member = p_.saved.members.at(static_cast<uint32_t>(who))->process;
    std::vector<gid_t> groups;
    for (size_t i = 0; i < member.groups.size(); i++)
        groups.push_back(member.groups[i]);
    const MakeProcess by = p_.options.device >= 0 ? make_process_by_module : make_process;
    Result<Namesake> made = Namesake::make(who, groups, {by, ids_}, deed);
    if (made)
        return std::move(*made);
    // The ids are in use, or cannot be chosen. Waiting for each could take seconds, without
    // success.
    none_to_be_had_ = true;
    return std::nullopt;
}

Result<ConnectedPair> Namesakes::pair(const image::Socket &saved)
{
    const int kind = static_cast<int>(saved.kind) | SOCK_CLOEXEC;
    const auto makes_pair = [](int word, Namesake::Made &made) {
        return sys::call(SYS_socketpair, AF_UNIX, word, 0, made.data());
    };
    if (const std::optional<pid_t> who = named(saved.open_file)) {
        if (!makes_pairs_ || makes_pairs_->pid() != *who) {
            if (std::optional<Namesake> one = make(*who, makes_pair))
                makes_pairs_.emplace(std::move(*one));
        }
        std::vector<Fd> made;
        if (makes_pairs_ && makes_pairs_->act(kind, made) == 0 && made.size() == 2)
            return ConnectedPair{std::move(made[0]), std::move(made[1])};
    }
    int fds[2];
    if (socketpair(AF_UNIX, kind, 0, fds) != 0)
        return Error::from_errno("making a pair of sockets", errno);
    return ConnectedPair{Fd(fds[0]), Fd(fds[1])};
}

bool Namesakes::listen(const image::Socket &caller, int fd, int backlog)
{
    const auto listens = [=](int, Namesake::Made &) { return sys::call(SYS_listen, fd, backlog); };
    const std::optional<pid_t> who = named(caller.open_file);
    if (listens_at(fd) == who.value_or(getpid()))
        return true;
    if (who) {
        std::optional<Namesake> one = make(*who, listens);
        if (one && one->act() == 0)
            return true;
    }
    return ::listen(fd, backlog) == 0;
}

std::optional<Namesake> Namesakes::caller_of(const image::Socket &accepted,
                                             const Namesake::Deed &deed)
{
    const std::optional<pid_t> who = named(accepted.open_file);
    return who ? make(*who, deed) : std::nullopt;
}

int Namesakes::connect(const image::Socket &caller, int fd, const SocketName &address)
{
    const auto connects = [&](int, Namesake::Made &) {
        return sys::call(SYS_connect, fd, address.get(), address.size);
    };
    if (const std::optional<pid_t> who = holder_of(caller.open_file)) {
        std::optional<Namesake> one = make(*who, connects);
        if (one && one->act() == 0)
            return 0;
    }
    unnamed_callers_ +=
        p_.saved.of<image::PeerCredentials>().count(caller.open_file); // none in older images
    return ::connect(fd, address.get(), address.size) == 0 ? 0 : errno;
}

void tell_peers(Planning &p)
{
    constexpr size_t most = 4; // that are told one by one
    size_t others = 0;
    std::string list;
    for (const auto &[id, before] : p.saved.of<image::PeerCredentials>()) {
        const auto fd = p.open_fds.find(id);
        ucred now = {};
        socklen_t size = sizeof(now);
        if (fd == p.open_fds.end() || p.redirected.contains(id) ||
            getsockopt(fd->second, SOL_SOCKET, SO_PEERCRED, &now, &size) != 0)
            continue;
        const auto pid = static_cast<uint32_t>(now.pid);
        if (pid == before.pid && now.uid == before.uid && now.gid == before.gid)
            continue;
        if (others++ < most)
            list += fmt::format(
                "{}{} {} before, {} now", list.empty() ? "" : "; ", describe_socket(p, id),
                describe(before.pid, before.uid, before.gid), describe(pid, now.uid, now.gid));
    }
    if (others > most)
        list += fmt::format("; and {} more", others - most);
    if (others != 0)
        p.plan.notices.push_back(fmt::format("UNIX sockets that name another peer (SO_PEERCRED) "
                                             "than before: {}: {}",
                                             others, list));
    if (const size_t callers = p.namesakes->unnamed_callers(); callers != 0)
        p.plan.notices.push_back(fmt::format("UNIX connections that nobody has accepted yet and "
                                             "that name process {} as who has connected "
                                             "(SO_PEERCRED): {}",
                                             getpid(), callers));
}

} // namespace cryo::restore
