// SPDX-License-Identifier: Apache-2.0
#include "restore/sockets_apart.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sched.h>
#include <string_view>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

using resources::InDirectory;
using resources::SocketName;

namespace {

constexpr const char *file_inside = "/.cryo.socket";

SocketName name_of(const std::string &path)
{
    sockaddr_un made = {};
    made.sun_family = AF_UNIX;
    memcpy(made.sun_path, path.c_str(), std::min(path.size(), sizeof(made.sun_path) - 1));
    return SocketName(image::Bytes(reinterpret_cast<const uint8_t *>(&made), sizeof(made)));
}

// All directories on the way to what is at the end of the path.
void make_way(const std::string &path)
{
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
        mkdir(path.substr(0, at).c_str(), 0700);
}

// In a process of its own: 0 or why it failed. The directory becomes the root directory.
int bind_below(const std::string &root, int fd, const SocketName &name, const std::string &cwd)
{
    if (chroot(root.c_str()) != 0 &&
        (errno != EPERM || unshare(CLONE_NEWUSER) != 0 || chroot(root.c_str()) != 0))
        return errno;
    if (chdir("/") != 0)
        return errno;
    make_way(cwd + "/");
    if (chdir(cwd.c_str()) != 0)
        return errno;
    make_way(name.path());
    // The path, which the image has chosen, leads to nothing outside.
    return ::bind(fd, name.get(), name.size) == 0 && rename(name.path(), file_inside) == 0 ? 0
                                                                                           : errno;
}

int bind_in_process(const std::string &root, int fd, const SocketName &name, const std::string &cwd)
{
    const pid_t child = fork();
    if (child < 0)
        return errno;
    if (child == 0)
        _exit(bind_below(root, fd, name, cwd));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

std::string whole(const SocketName &name, const std::string &cwd)
{
    return *name.path() == '/' ? name.path() : cwd + "/" + name.path();
}

} // namespace

SocketsApart::~SocketsApart()
{
    std::error_code ignored;
    for (const auto &[id, place] : places_)
        unlink(place.path());
    if (directory_)
        std::filesystem::remove_all(directory_->path, ignored);
}

// Where this user may not change the root directory, the name is free, and the directory is there.
Result<void> SocketsApart::bind_in_place(int fd, const SocketName &name, const std::string &cwd,
                                         const std::string &file)
{
    const InDirectory inside(cwd);
    struct stat now;
    if (lstat(name.path(), &now) == 0)
        return Error(EEXIST, fmt::format("{} stands where a removed socket was, and this user may "
                                         "not make one elsewhere (by a user namespace)",
                                         whole(name, cwd)));
    if (::bind(fd, name.get(), name.size) != 0)
        return Error::from_errno("giving a socket its address " + name.text(), errno);
    if (rename(name.path(), file.c_str()) == 0)
        return {};
    const int why = errno;
    unlink(name.path());
    return Error::from_errno("moving the socket " + whole(name, cwd), why);
}

Result<void> SocketsApart::bind(int fd, uint32_t open_file, const SocketName &name,
                                const std::string &cwd)
{
    if (!directory_) {
        constexpr size_t most = sizeof(sockaddr_un::sun_path) / 2; // of the path that is used here
        const char *temporary = getenv("TMPDIR");
        const bool is_short = temporary != nullptr && strlen(temporary) < most;
        Result<DirectoryForNow> made = DirectoryForNow::make(is_short ? temporary : "/tmp");
        if (!made)
            return made.error();
        directory_ = std::move(*made);
    }
    const std::string root = fmt::format("{}/{}", directory_->path, open_file);
    if (mkdir(root.c_str(), 0700) != 0)
        return Error::from_errno("making " + root, errno);
    std::string file = root + file_inside;
    const int why = bind_in_process(root, fd, name, cwd);
    if (why == EPERM || why == EUSERS || why == ENOSPC) { // no user namespaces, or no more of them
        const std::string place = whole(name, cwd);
        const std::string parent = place.substr(0, place.rfind('/'));
        if (const Result<Directory> there = Directory::open(parent + "/."); there)
            sweep_left_sockets(*there);
        file = fmt::format("{}/{}", parent, socket_for_now());
        if (file.size() >= sizeof(sockaddr_un::sun_path))
            file = fmt::format("{}/.cryo.{}.{}", parent, getpid(), open_file);
        if (file.size() >= sizeof(sockaddr_un::sun_path))
            return Error(ENAMETOOLONG, "the path of the socket " + place);
        if (Result<void> bound = bind_in_place(fd, name, cwd, file); !bound)
            return bound;
    } else if (why != 0) {
        return Error::from_errno("giving a socket its address " + name.text(), why);
    }
    places_.emplace(open_file, name_of(file));
    return {};
}

const SocketName *SocketsApart::place(uint32_t open_file) const
{
    const auto found = places_.find(open_file);
    return found == places_.end() ? nullptr : &found->second;
}

} // namespace cryo::restore
