// SPDX-License-Identifier: Apache-2.0
#include "obstacles.hpp"

#include "cli/command.hpp"
#include "look/identity.hpp"
#include "look/proc.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace {

// The file that execvp(3) would execute; "": none.
std::string file_of(const std::string &program)
{
    if (program.find('/') != std::string::npos)
        return program;
    const char *path = getenv("PATH");
    std::istringstream directories(path != nullptr ? path : "/bin:/usr/bin");
    for (std::string one; std::getline(directories, one, ':');) {
        std::string file = (one.empty() ? "." : one) + "/" + program;
        struct stat status;
        if (access(file.c_str(), X_OK) == 0 && stat(file.c_str(), &status) == 0 &&
            S_ISREG(status.st_mode))
            return file;
    }
    return {};
}

// The dynamic linker preloads nothing then.
bool gains_privileges(const std::string &file, const struct stat &status)
{
    const bool by_mode = ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) ||
                         ((status.st_mode & S_ISGID) != 0 && status.st_gid != getgid());
    return by_mode ||
           (geteuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0);
}

std::string why_not_enterable(const std::string &program)
{
    const std::string file = file_of(program);
    struct stat status;
    if (file.empty() || stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
        return ""; // execvp() reports it
    return gains_privileges(file, status) ? "is setuid or setgid, or has capabilities of its own"
                                          : cryo::capture::why_not_preloadable(file);
}

bool is_connection(int fd)
{
    sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    return getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) == 0;
}

} // namespace

void tell_obstacles(const std::string &program, const std::string &filter)
{
    if (const std::string why = why_not_enterable(program); !why.empty())
        cryo::cli::say("cr_run", fmt::format("{} {}: it cannot be saved", program, why));
    if (!filter.empty())
        cryo::cli::say("cr_run", fmt::format("{} cannot be saved: {}", program, filter));
    constexpr const char *streams[] = {"input", "output", "error"};
    std::string connected;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (is_connection(fd))
            connected += fmt::format("{}{}", connected.empty() ? "" : ", ", streams[fd]);
    }
    if (!connected.empty())
        cryo::cli::say("cr_run",
                       fmt::format("standard {}: a connection (socket), with which the program "
                                   "cannot be saved, but by cr_checkpoint --sockets=close: it "
                                   "comes back as closed then",
                                   connected));
}

bool ends_by_preloading(const std::string &program)
{
    const std::string file = file_of(program);
    return !file.empty() && cryo::capture::is_of_musl(file);
}
