// SPDX-License-Identifier: Apache-2.0
//
// Opens the program's files. cr_restart does it itself, in ordinary C++, at numbers above all
// that the program uses, and the fresh process inherits the descriptors. So several processes
// can share an open file, contents can be large, and errors occur before there is a process.
//
//     Fd file(open(path, flags | O_CLOEXEC));
//     Result<int> number = keep_open(p, std::move(file), open_file.id);
//
// Per-process state (locks, owners, epoll's watches by number)
// is set up by the process itself, with operations of the plan.
#pragma once

#include "base/fd.hpp"
#include "resources/opening.hpp"
#include "resources/reopening.hpp"
#include "resources/socket/socket_name.hpp"
#include "resources/socket/socket_options.hpp"
#include "resources/socket/tcp_lingering.hpp"
#include "restore/plan_parts.hpp"

#include <fcntl.h>
#include <memory>
#include <sys/socket.h>

namespace cryo::restore {

using resources::creation_flags;
using resources::InDirectory;
using resources::open_again;
using resources::remove_stale;
using resources::set_flags;
using resources::set_socket_options;
using resources::SocketName;
using resources::SocketRenames;

// Gives the descriptor a number under which the process inherits it. `open_file`: the
// open file that it is, or 0 for a descriptor that is only needed during the restart.
Result<int> keep_open(Planning &p, Fd fd, uint32_t open_file);
// The descriptor of an open file in the fresh process.
Operand opened(const Planning &p, uint32_t open_file);
bool is_opened(const Planning &p, uint32_t open_file);

// The bytes of a small object, such as a pipe or a queue.
Result<std::string> small_contents(Planning &p, uint32_t object, uint64_t size);

// open_regular.cpp: files, directories, devices; what has a name, or contents in the image.
Result<void> open_contents(Planning &p);
Result<void> open_by_name(Planning &p, const image::File &file, const image::OpenFile &open_file);
// Whether it is a file of /proc about a member, which a process opens before its execve. Until then
// there is only a placeholder.
bool is_about_member(const Planning &p, uint32_t open_file);
// open_nameless.cpp: a directory that was removed, in which nothing can be made; an empty file.
Result<Fd> removed_directory(const Planning &p, const image::File &file);
Result<Fd> nameless_file(const Planning &p, const image::File &file);
// open_huge.cpp: files of hugetlb pages; `flags` are those of memfd_create.
bool has_huge_pages(int fd);
Result<void> fill_huge(Planning &p, const image::File &file, int fd);
Result<Fd> huge_memory_file(Planning &p, const image::File &file, unsigned flags);
// open_kinds.cpp: what resources/ has a source for. Once for the tree; then each process: before
// its descriptors have their numbers, and last.
Result<void> open_kinds(Planning &p);
Result<void> place_kinds(Planning &p);
void finish_kinds(Planning &p);
// open_kinds.cpp: what open files of every kind may have. Leases are in the way of a rehearsal.
Result<void> spare_leases(Planning &p);
void plan_locks(Planning &p);
void plan_owners(Planning &p);
// open_kinds.cpp: cutting files back to their sizes. Descriptors above the program's that this and
// finish_kinds() still need, and close.
std::set<int> spared_to_the_end(Planning &p);
void cut_files(Planning &p);
// What those kinds see of a restart, for parts of other kinds that need no more.
std::unique_ptr<resources::Opening> opening_of(Planning &p);
// open_socket.cpp
Result<void> open_sockets(Planning &p);
Result<void> keep_socket(Planning &p, Fd fd, const image::Socket &saved);
// bind_sockets.cpp. Binds sockets whose files were renamed, before all others: those may have the
// old names by now, or be connected to a new one. They are opened later, in their turn.
Result<void> bind_renamed(Planning &p);
// A socket that is bound, if it has a name of its own: made, or bound already.
Result<Fd> take_or_make(Planning &p, const image::Socket &saved);
// Restores options that were set otherwise for the binds, once all are bound.
Result<void> settle_options(const Planning &p);
bool is_named(image::Bytes address);
// Of a pair the other end, if both come back; nullptr: it does not.
const image::Socket *other_end(const Planning &p, const image::Socket &saved);
// Whether these are datagram sockets that have names and are connected with each other.
bool is_named_pair(const image::Socket &saved, const image::Socket *other);
// socket_names.cpp. What the file of a socket was renamed to; empty if it was not, or if the socket
// has no file, as in a rehearsal.
std::string_view new_name(const Planning &p, const image::Socket &saved);
// Where a socket is found.
SocketName name_now(const Planning &p, const image::Socket &socket);
Result<void> connect_datagram(Planning &p, int fd, const image::Socket &saved);
// peers.cpp. Says, for all sockets at once, which name another peer (SO_PEERCRED) than they did.
void tell_peers(Planning &p);
// open_tcp.cpp: TCP connections whose ends are both in the image. free_addresses()
// ends lingering ones that still have the addresses, before anything is bound.
void free_addresses(const Planning &p);
Result<void> open_connections(Planning &p);
// Sets their options once they are filled; set earlier, these would disturb the filling.
Result<void> finish_connections(Planning &p);
// open_waiting.cpp: TCP connections that nobody has accepted yet. The callers' ends, as far as they
// have addresses of their family; and making them, with their connections.
std::vector<resources::TcpEnd> waiting_callers(const Planning &p);
Result<void> open_waiting(Planning &p);
// open_ended.cpp: TCP connections that have ended, while no other socket has their addresses yet.
std::vector<resources::TcpEnd> ended_ends(const Planning &p);
Result<void> open_ended(Planning &p);
// UNIX sockets at which the process listens, as its peers are to see. cr_restart's descriptors of
// those that wait in messages are spared until then, and closed.
std::set<int> spared_listeners(const Planning &p);
void plan_listeners(Planning &p);
// open_kept.cpp: TCP connections to peers outside, whose packets are held since the checkpoint.
Result<void> open_kept(Planning &p);
// fill_socket.cpp: refills sockets, when every open file is open that may be in flight there.
Result<void> fill_sockets(Planning &p);

// A descriptor that the program has of it, for the plan's last operations; −1: none.
int descriptor_of(const Planning &p, uint32_t open_file);
// The open file that a redirection of this number replaces; 0: the program had closed it.
uint32_t open_file_at(const Planning &p, int fd);
// A file that leads outside the image becomes cr_restart's own input, output, or error output.
int standard_for(const Planning &p, const image::OpenFile &open_file);
Result<int> open_standard(Planning &p, int which, uint32_t open_file);

} // namespace cryo::restore
