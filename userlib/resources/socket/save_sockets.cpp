// SPDX-License-Identifier: Apache-2.0
// Sockets. What does not lead outside is recreated: listening, bound and fresh sockets, pairs with
// their contents, datagram sockets that send to a well-known path. A connection is refused, or
// closed on request, since only its peer could restore it.
#include "resources/socket/sockets.hpp"

#include "look/internet_address.hpp"
#include "look/other_look.hpp"
#include "look/peer_link.hpp"
#include "look/socket_look.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::resources {

using capture::InternetAddress;
using capture::is_other;
using capture::is_udp;
using capture::Passing;
using capture::Proc;
using capture::SocketLook;
using capture::SocketQueue;
using image::SocketState;

namespace {

constexpr std::string_view way_out = "--sockets=close brings it back as closed";

bool is_internet(const SocketLook &look)
{
    return look.domain == AF_INET || look.domain == AF_INET6;
}

std::string way_out_of(const SocketLook &look)
{
    const bool may_be_kept = is_internet(look) && look.protocol == IPPROTO_TCP;
    return std::string(way_out) + (may_be_kept ? "; for root, --sockets=keep with --term or --kill "
                                                 "keeps it"
                                               : "");
}

std::string offer_of(Saving &saving, const Seen &seen, const SocketLook &look)
{
    const Result<std::string> peer = capture::link_of_peer(look);
    return peer ? saving.offer(seen, *peer)
                : "; which process has the other end is not known: " + peer.error().text();
}

// Kinds of sockets that can be restored at all.
bool is_known(const SocketLook &look)
{
    const bool stream = look.kind == SOCK_STREAM;
    const bool datagram = look.kind == SOCK_DGRAM;
    if (is_internet(look))
        return (stream && look.protocol == IPPROTO_TCP) ||
               (datagram && look.protocol == IPPROTO_UDP) || is_other(look);
    return is_other(look) ||
           (look.domain == AF_UNIX && (stream || datagram || look.kind == SOCK_SEQPACKET));
}

uint64_t as_diagnosed(uint64_t major_number, uint64_t minor_number)
{
    return major_number << 20 | minor_number;
}

// The device of the file system that a file is on; none: unknown. The device that stat(2) reports
// may be another one: a subvolume of btrfs and a layer of an overlay have their own.
std::optional<uint64_t> device_of_mount(int file)
{
    const Proc own(getpid());
    const Result<std::string> info = own.read(fmt::format("fdinfo/{}", file));
    const Result<std::string> mounts = own.read("mountinfo");
    if (!info || !mounts)
        return std::nullopt;
    std::string_view id = capture::field(*info, "mnt_id");
    if (id.empty())
        return std::nullopt;
    const uint64_t wanted = capture::take_number(id);
    // "36 35 98:0 /root /place rw,noatime - ext4 /dev/sda1 rw"
    for (std::string_view rest = *mounts; !rest.empty();) {
        std::string_view line = capture::take_line(rest);
        const uint64_t mount = capture::take_number(line);
        capture::take_number(line); // where it is mounted
        const uint64_t high = capture::take_number(line);
        if (mount != wanted || !line.starts_with(':'))
            continue;
        line.remove_prefix(1);
        return as_diagnosed(high, capture::take_number(line));
    }
    return std::nullopt;
}

// Whether `file`, which is found there, is the socket's: other file systems, which may be mounted
// below or over it, number their files alike.
bool is_file_of(const SocketLook &look, const struct stat &file, int directory, const char *name)
{
    if (!S_ISSOCK(file.st_mode))
        return false;
    if (look.file_inode == 0)
        return true;
    if (static_cast<uint32_t>(file.st_ino) != look.file_inode)
        return false;
    if (as_diagnosed(major(file.st_dev), minor(file.st_dev)) == look.file_device)
        return true;
    const Fd found(openat(directory, name, O_PATH | O_CLOEXEC));
    const std::optional<uint64_t> device = found ? device_of_mount(found.get()) : std::nullopt;
    return !device || *device == look.file_device;
}

void note_file(image::Socket &record, const struct stat &file)
{
    record.file_mode = file.st_mode;
    record.file_uid = file.st_uid;
    record.file_gid = file.st_gid;
}

// Whether the file of a bound UNIX socket still is where a restart would create it again.
bool path_leads_to(const SocketLook &look, const std::string &cwd, image::Socket &record)
{
    const std::string path = capture::unix_path(look.local);
    if (path.empty())
        return true; // no name, or an abstract one
    struct stat now;
    const std::string whole = path.front() == '/' ? path : cwd + "/" + path;
    if (stat(whole.c_str(), &now) != 0 || !is_file_of(look, now, AT_FDCWD, whole.c_str()))
        return false;
    note_file(record, now);
    return true;
}

// Finds a socket's file that was renamed within its directory, as servers do that let a new socket
// replace an old one at once. Otherwise returns what is wrong with its name; `is_gone`: its
// directory, or what was in there, was looked through.
std::string find_renamed(SocketLook &look, const std::string &cwd, image::Socket &record,
                         bool &is_gone)
{
    // In a directory that everybody may write to, any user may have made the files: so their number
    // is limited.
    constexpr int most_entries = 100'000, most_sockets = 10'000;
    std::string lost = "whose name does not lead to it any more"; // returned by a move
    const std::string path = capture::unix_path(look.local);
    const std::string whole = path.front() == '/' ? path : cwd + "/" + path;
    const size_t of_directory = path.rfind('/') + 1; // 0: it is in the working directory
    if (look.file_inode == 0)
        return lost;
    const std::unique_ptr<DIR, int (*)(DIR *)> directory(
        opendir(whole.substr(0, whole.rfind('/') + 1).c_str()), closedir);
    is_gone = !directory && errno == ENOENT;
    if (!directory)
        return fmt::format("{}, and its directory cannot be searched for another one: {}", lost,
                           strerror(errno));
    int sockets = 0;
    for (int i = 0; i < most_entries && sockets < most_sockets; i++) {
        const dirent *entry = readdir(directory.get());
        is_gone = entry == nullptr;
        if (is_gone)
            return lost;
        if (entry->d_type != DT_SOCK && entry->d_type != DT_UNKNOWN)
            continue;
        struct stat now;
        sockets++;
        if (fstatat(dirfd(directory.get()), entry->d_name, &now, AT_SYMLINK_NOFOLLOW) != 0 ||
            !is_file_of(look, now, dirfd(directory.get()), entry->d_name))
            continue;
        // With a longer name nobody can connect to it.
        if (of_directory + strlen(entry->d_name) >= sizeof(sockaddr_un::sun_path))
            return lost;
        look.file_name = entry->d_name;
        note_file(record, now);
        return {};
    }
    return lost + ", and its directory has too many files to be searched for another one";
}

// Whether nobody would miss the file if it were elsewhere: a relative name leads to another place
// if the program has changed its directory since, and a client would not find a socket without a
// file.
bool is_at_its_place_or_not_needed(const SocketLook &look)
{
    return capture::unix_path(look.local).front() == '/' ||
           (look.kind != SOCK_DGRAM && !look.listening);
}

// What is wrong with the name of a UNIX socket that is not found at its place. Empty: nothing, for
// it was renamed, or removed, and so it comes back.
std::string find_file(SocketLook &look, const std::string &cwd, int socket, image::Socket &record,
                      SocketPlace &place)
{
    bool is_gone = false;
    std::string lost = find_renamed(look, cwd, record, is_gone); // returned by a move
    if (lost.empty())
        return lost;
    const SocketFile file = file_of(socket);
    place.file_removed =
        file.is_known ? file.is_removed : is_gone && is_at_its_place_or_not_needed(look);
    place.is_sure = file.is_known;
    if (place.file_removed)
        return {};
    struct stat there; // a mount may hide it
    const bool is_there = file.is_known && lstat(file.path.c_str(), &there) == 0 &&
                          is_file_of(look, there, AT_FDCWD, file.path.c_str());
    return is_there ? fmt::format("whose file was moved to {}", file.path) : lost;
}

} // namespace

// Also true if a saved process is to accept it: then it will be a pair.
bool Sockets::is_to_be_accepted(const SocketLook &look) const
{
    const InternetAddress peer(look.peer);
    return is_internet(look) && std::ranges::any_of(looked_at_, [&](const auto &one) {
               const SocketLook &other = one.second.look;
               return other.listening && other.waiting > 0 && is_internet(other) &&
                      InternetAddress(other.local).takes(peer, true);
           });
}

// Connected for sending only, or to another one that comes back under its number.
bool Sockets::needs_no_peer(const SocketLook &look) const
{
    if (look.domain != AF_NETLINK)
        return look.protocol != IPPROTO_UDPLITE || is_on_loopback(look);
    return capture::is_unnamed(look.peer) || std::ranges::any_of(looked_at_, [&](const auto &one) {
               const SocketLook &other = one.second.look;
               return other.domain == AF_NETLINK && other.protocol == look.protocol &&
                      other.bound &&
                      capture::printable_address(other.local) ==
                          capture::printable_address(look.peer);
           });
}

void Sockets::keep_more(const SocketLook &look, const SocketPlace &place, uint32_t open_file)
{
    if (look.groups.empty() && look.interface.empty() && look.filter.empty() &&
        !look.filter_locked && look.type_filter.empty() && look.file_name.empty() &&
        look.congestion.empty() && !place.file_removed && !place.absent_address)
        return;
    image::SocketMore more;
    more.socket = open_file;
    more.groups = saving_.keep_list(look.groups);
    more.interface = saving_.keep(look.interface);
    more.filter = saving_.keep_list(look.filter);
    more.filter_locked = look.filter_locked;
    more.type_filter = image::as_bytes(saving_.keep(look.type_filter));
    more.file_name = saving_.keep(look.file_name);
    more.congestion = saving_.keep(look.congestion);
    more.file_removed = place.file_removed;
    more.absent_address = place.absent_address;
    saving_.records().add(more);
}

void Sockets::keep_groups(const SocketLook &look, uint32_t open_file)
{
    for (const capture::Membership &one : look.memberships) {
        image::GroupMember member;
        member.socket = open_file;
        member.interface = saving_.keep(one.interface);
        member.group = image::as_bytes(saving_.keep(one.group));
        member.only_sources = one.filter.only_sources;
        member.sources = image::as_bytes(saving_.keep(one.filter.sources));
        member.packets = one.packets;
        saving_.records().add(member);
    }
}

// The kernel tells the id that the peer's process has in our pid namespace, which is the program's.
void Sockets::keep_peer(const Seen &seen)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(seen.shared.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return;
    image::PeerCredentials record;
    record.socket = seen.open_file;
    record.pid = static_cast<uint32_t>(peer.pid);
    record.uid = peer.uid;
    record.gid = peer.gid;
    saving_.records().add(record);
}

Result<void> Sockets::save_sockets()
{
    if (looked_at_.empty())
        return {};
    Result<std::string> cwd =
        saving_.holder(seen_of(looked_at_.begin()->second)).link("cwd"); // of the first
    if (!cwd)
        return cwd.error();
    for (auto &[inode, socket] : looked_at_) {
        const Seen *seen = &seen_of(socket);
        const SocketLook &look = socket.look;
        if (seen->open_file == 0)
            continue; // refused already
        image::Socket record;
        SocketPlace place;
        record.open_file = seen->open_file;
        record.domain = static_cast<uint32_t>(look.domain);
        record.kind = static_cast<uint32_t>(look.kind);
        record.protocol = static_cast<uint32_t>(look.protocol);
        record.local = image::as_bytes(saving_.keep(look.local));
        record.peer = image::as_bytes(saving_.keep(look.peer));
        record.backlog = look.backlog;
        record.shutdown = look.shutdown;
        record.options = saving_.keep_list(look.options);

        const std::string name = fmt::format("a socket, {}", capture::describe_socket(look));
        const bool pair = socket.in_pair;
        const bool connected = look.connected;
        if (!is_known(look)) {
            saving_.refuse(*seen, name, "close it before the checkpoint");
            continue;
        }
        if (look.domain == AF_UNIX && !look.diagnosed) {
            saving_.refuse(*seen, name + ", about which this kernel reports too little (unix_diag)",
                           "close it before the checkpoint");
            continue;
        }
        if (!look.problem.empty()) {
            saving_.refuse(*seen, fmt::format("{}, {}", name, look.problem),
                           look.passing ? "try it later, or close it before the checkpoint"
                                        : "undo that, or close it, before the checkpoint",
                           look.passing ? Passing::soon : Passing::never);
            continue;
        }
        if (look.listening) {
            record.state = SocketState::listening;
            if (look.waiting > 0 && socket.callers.empty() && !close_)
                saving_.refuse(
                    *seen,
                    fmt::format("{}, with {} connections that nobody has accepted yet; {}", name,
                                look.waiting, socket.why_no_callers),
                    "accept them before the checkpoint, or --sockets=close drops them",
                    Passing::soon);
        } else if (pair) {
            record.state = SocketState::pair;
            record.peer_open_file = seen_of(looked_at_.at(look.peer_inode)).open_file;
        } else if (look.domain == AF_UNIX && look.kind == SOCK_DGRAM && connected &&
                   !look.peer_is_unnamed) {
            record.state = SocketState::connected_datagram;
            if (const auto to = looked_at_.find(look.peer_inode); to != looked_at_.end())
                record.peer_open_file = seen_of(to->second).open_file;
        } else if (connected && is_udp(look) && !look.failed && is_on_loopback(look)) {
            record.state = SocketState::connected_datagram;
        } else if (connected && is_other(look) && needs_no_peer(look)) {
            record.state = SocketState::connected_datagram;
        } else if (socket.waits) { // a restart connects it again later
            record.state = is_internet(look) ? SocketState::pair
                           : look.bound      ? SocketState::bound
                                             : SocketState::fresh;
        } else if (look.domain == AF_UNIX && connected && look.peer_inode == 0 &&
                   look.kind != SOCK_DGRAM) {
            record.state = SocketState::closed; // by its peer, already
            // A closed peer would have shut down both directions.
            if (look.shutdown != 3 && !close_)
                saving_.refuse(*seen, name + ", which nobody has accepted yet", way_out,
                               Passing::soon);
        } else if (look.domain == AF_UNIX && look.kind == SOCK_DGRAM && connected &&
                   look.peer_inode == 0 && look.local_is_unnamed) {
            record.state = SocketState::closed; // what is left of a pair
        } else if (socket.kept && *socket.kept) {
            record.state = SocketState::kept;
        } else if (connected) {
            record.state = SocketState::closed;
            if (saving_.is_inherited(*seen) && !is_to_be_accepted(look))
                saving_.notice(fmt::format("{}: {}, from whoever started cr_run, comes "
                                           "back as closed",
                                           descriptor_text(*seen), name));
            else if (keep_ && hold_ == nullptr && may_be_kept(socket))
                saving_.notice(fmt::format("{}: {}, comes back as closed: only a signal "
                                           "that surely ends the program, as that of --kill, "
                                           "keeps it",
                                           descriptor_text(*seen), name));
            else if (!close_)
                saving_.refuse(*seen, name + why_not_kept(socket),
                               way_out_of(look) + offer_of(saving_, *seen, look),
                               is_to_be_accepted(look) ? Passing::soon : Passing::when_gone);
        } else if (look.ended) {
            record.state = SocketState::closed;
            record.shutdown = 3; // reads find the end, not a missing connection
            const std::string peer = former_peer(seen->shared.get());
            record.peer = image::as_bytes(saving_.keep(peer));
            if (!InternetAddress(look.local).is_loopback() || !InternetAddress(peer).is_loopback())
                saving_.notice(fmt::format("{}: {}, whose connection has ended, comes "
                                           "back without its names (getsockname, SO_PEERNAME)",
                                           descriptor_text(*seen), name));
            if (look.unread && !close_)
                saving_.refuse(*seen, name + ", whose connection has ended, with unread bytes",
                               "read them before the checkpoint, or let --sockets=close drop them",
                               Passing::soon);
        } else {
            record.state = look.bound ? SocketState::bound : SocketState::fresh;
        }
        const bool is_closed = record.state == SocketState::closed;
        // An accepted connection has its listener's name, and the listener may be gone.
        if (!is_closed && !path_leads_to(look, *cwd, record) &&
            !(pair && look.kind != SOCK_DGRAM)) {
            const std::string lost =
                find_file(socket.look, *cwd, seen->shared.get(), record, place);
            if (place.file_removed && !place.is_sure)
                saving_.notice(fmt::format("{}: {}, whose file is not in its directory "
                                           "any more, comes back without one",
                                           descriptor_text(*seen), name));
            if (!lost.empty())
                saving_.refuse(*seen, fmt::format("{}, {}", name, lost),
                               "close it before the checkpoint");
        }
        const bool is_lone = look.kind == SOCK_DGRAM || is_other(look);
        if (socket.contents) {
            const bool may_drop =
                close_ && look.kind == SOCK_DGRAM && !pair && socket.passed.empty();
            const std::string problem =
                socket.queue ? save_senders(saving_, looked_at_, socket, record, *cwd)
                             : socket.queue.error().text();
            if (!problem.empty() && may_drop) {
                saving_.notice(fmt::format("{}: {}, {}; what waits in it is dropped",
                                           descriptor_text(*seen), name, problem));
                socket.queue = SocketQueue();
            }
            if (!socket.queue) {
                saving_.refuse(*seen, fmt::format("{}: {}", name, socket.queue.error().text()),
                               is_internet(look) ? way_out : "read them before the checkpoint",
                               Passing::soon);
            } else {
                if (!problem.empty() && !may_drop)
                    saving_.refuse(*seen, fmt::format("{}, {}", name, problem),
                                   "read them before the checkpoint", Passing::soon);
                record.size = socket.queue->bytes.size();
                record.packets = saving_.keep_list(socket.queue->packets);
                record.reset = socket.queue->reset;
                record.object =
                    saving_.copied(image::ObjectKind::socket_queue, std::move(socket.queue->bytes));
            }
        } else if (is_lone && look.unread && close_) {
            saving_.notice(fmt::format("{}: {}, with datagrams that were not read "
                                       "yet; what waits in it is dropped",
                                       descriptor_text(*seen), name));
        } else if (is_lone && look.unread) {
            saving_.refuse(*seen, name + ", with datagrams that were not read yet",
                           "read them before the checkpoint, or let --sockets=close drop them",
                           Passing::soon);
        } else if ((is_udp(look) || is_other(look)) && look.failed && !is_closed && !close_) {
            saving_.refuse(
                *seen, name + ", with a pending error that the program has not read (SO_ERROR)",
                "let the program read it before the checkpoint, or let --sockets=close drop it",
                Passing::soon);
        }
        if (record.state == SocketState::bound || record.state == SocketState::listening ||
            record.state == SocketState::connected_datagram)
            place.absent_address = has_absent_address(look);
        if (record.state == SocketState::kept)
            save_kept(socket, record);
        saving_.records().add(record);
        keep_more(look, place, record.open_file);
        keep_groups(look, record.open_file);
        // Not of a connection to an outside peer, which is over.
        if (look.domain == AF_UNIX && (pair || socket.waits || (is_closed && look.peer_inode == 0)))
            keep_peer(*seen);
    }
    return {};
}

Result<void> Sockets::look()
{
    if (Result<void> done = look_into_all(); !done)
        return done;
    look_at_connections();
    look_at_waiting();
    look_at_kept();
    return {};
}

Result<void> Sockets::save()
{
    if (Result<void> done = save_sockets(); !done)
        return done;
    save_passed();
    save_connections();
    save_waiting();
    return {};
}

} // namespace cryo::resources
