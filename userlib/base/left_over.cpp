// SPDX-License-Identifier: Apache-2.0
#include "base/left_over.hpp"

#include "base/contents.hpp"
#include "base/lent_mode.hpp"
#include "base/nobodys.hpp"
#include "base/open_found.hpp"
#include "sys/page.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <optional>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

namespace cryo {

namespace {

constexpr std::string_view mark = ".cryo.";
constexpr std::string_view pattern = "XXXXXX";
constexpr size_t boot_digits = 8;

bool is_hexadecimal(std::string_view text)
{
    return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Empty: it is not known, and nothing is removed.
std::string boot()
{
    const Result<std::string> id = contents("/proc/sys/kernel/random/boot_id");
    const std::string begin = id ? id->substr(0, boot_digits) : std::string();
    return begin.size() == boot_digits && is_hexadecimal(begin) ? begin : std::string();
}

std::string end_of_name(std::string_view random)
{
    const std::string now = boot();
    return now.empty() ? fmt::format("{}{}", mark, random)
                       : fmt::format("{}{}.{}", mark, now, random);
}

// `end`: of this boot, without what is random.
bool ends_so(std::string_view name, std::string_view end)
{
    const size_t of_end = end.size() + pattern.size();
    if (end.size() == mark.size() || name.size() < of_end)
        return false;
    name.remove_prefix(name.size() - of_end);
    return name.starts_with(end) && std::ranges::all_of(name.substr(end.size()), [](char one) {
               return (one >= '0' && one <= '9') || (one >= 'A' && one <= 'Z') ||
                      (one >= 'a' && one <= 'z');
           });
}

// No character of several bytes is cut in two.
std::string_view beginning(std::string_view name, size_t most)
{
    if (name.size() <= most)
        return name;
    const auto continues = [](char byte) { return (static_cast<unsigned>(byte) & 0xC0U) == 0x80U; };
    while (most > 0 && continues(name[most]))
        most--;
    return name.substr(0, most);
}

void each_left(const Directory &directory, const std::function<void(const std::string &)> &look)
{
    const Result<std::vector<std::string>> names = directory.names();
    if (!names)
        return;
    const std::string end = end_of_name("");
    for (const std::string &name : *names) {
        if (ends_so(name, end))
            look(name);
    }
}

// By the descriptor: the path may be too long for an address, and lead elsewhere by now.
std::string through(const Directory &directory, const std::string &name)
{
    return fmt::format("/proc/self/fd/{}/{}", directory.fd(), name);
}

// A socket of another kind than that of the caller refuses it, so nobody needs to be asked who
// waits for connections.
bool is_dead_socket(const Directory &directory, const std::string &name)
{
    const Result<std::optional<struct stat>> now = directory.look(name);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = through(directory, name);
    if (!now || !now->has_value() || !S_ISSOCK((*now)->st_mode) || (*now)->st_uid != geteuid() ||
        path.size() >= sizeof(address.sun_path))
        return false;
    memcpy(address.sun_path, path.c_str(), path.size());
    const Fd caller(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return caller &&
           connect(caller.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) !=
               0 &&
           errno == ECONNREFUSED;
}

// Nothing but what a restart makes there: whoever may rename a directory of this user's can give
// it such a name.
void remove_made(const Directory &left)
{
    const Result<std::vector<std::string>> names = left.names();
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        const Result<std::optional<struct stat>> now = left.look(name);
        const mode_t mode = now && *now ? (*now)->st_mode : 0;
        if (S_ISSOCK(mode) || S_ISFIFO(mode) || S_ISCHR(mode))
            unlinkat(left.fd(), name.c_str(), 0);
        if (!S_ISDIR(mode))
            continue;
        if (const Result<Directory> inner = left.enter(name); inner)
            remove_made(*inner);
        unlinkat(left.fd(), name.c_str(), AT_REMOVEDIR); // not if anything else is in it
    }
}

void sweep_left_directories(const Directory &place)
{
    each_left(place, [&](const std::string &name) {
        const Result<Directory> left = place.enter(name);
        struct stat now = {};
        if (left && fstat(left->fd(), &now) == 0 && now.st_uid == geteuid() &&
            flock(left->fd(), LOCK_EX | LOCK_NB) == 0 && is_named(left->fd(), place, name)) {
            remove_made(*left);
            unlinkat(place.fd(), name.c_str(), AT_REMOVEDIR);
        }
    });
}

} // namespace

std::string name_for_now(std::string_view before)
{
    const std::string end = end_of_name(pattern);
    return fmt::format("{}{}", beginning(before, NAME_MAX - end.size()), end);
}

bool is_name_for_now(std::string_view name)
{
    return ends_so(name, end_of_name(""));
}

void sweep_left_files(const Directory &directory)
{
    each_left(directory, [&](const std::string &name) {
        const Result<Found> found = look_at(through(directory, name), Links::not_at_end);
        if (!found || !S_ISREG(found->status.st_mode) || found->status.st_uid != geteuid())
            return;
        constexpr int flags = O_RDONLY | O_NONBLOCK;
        const Result<Fd> file = open_lent(*found, flags, [&] { return open_found(*found, flags); });
        if (file && is_nobodys(file->get()) && is_named(file->get(), directory, name))
            unlinkat(directory.fd(), name.c_str(), 0);
    });
}

void Unmap::operator()(void *page) const
{
    munmap(page, sys::page_size);
}

HeldFile hold_file(int fd)
{
    void *const page = mmap(nullptr, sys::page_size, PROT_READ, MAP_SHARED, fd, 0);
    return HeldFile(page == MAP_FAILED ? nullptr : page);
}

void sweep_left_sockets(const Directory &directory)
{
    each_left(directory, [&](const std::string &name) {
        if (is_dead_socket(directory, name))
            unlinkat(directory.fd(), name.c_str(), 0);
    });
}

std::string socket_for_now()
{
    uint64_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        random = static_cast<uint64_t>(getpid());
    return end_of_name(fmt::format("{:06x}", random & 0xFFFFFFU));
}

Result<DirectoryForNow> DirectoryForNow::make(const std::string &place)
{
    if (const Result<Directory> there = Directory::open(place + "/."); there)
        sweep_left_directories(*there);
    constexpr int most_tries = 8; // another restart may take it for left before it is locked
    for (int i = 0; i < most_tries; i++) {
        DirectoryForNow made;
        made.path = fmt::format("{}/{}", place, name_for_now(""));
        if (mkdtemp(made.path.data()) == nullptr)
            return Error::from_errno("making " + made.path, errno);
        made.lock.reset(open(made.path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        struct stat ours = {};
        struct stat now = {};
        // Where there are no such locks, nobody gets one, and nothing is removed.
        const bool is_locked =
            made.lock && (flock(made.lock.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
        if (is_locked && fstat(made.lock.get(), &ours) == 0 &&
            lstat(made.path.c_str(), &now) == 0 && ours.st_dev == now.st_dev &&
            ours.st_ino == now.st_ino)
            return made;
        rmdir(made.path.c_str());
    }
    return Error(EBUSY, place + ": another user, or another restart, takes what is made there");
}

} // namespace cryo
