// SPDX-License-Identifier: Apache-2.0
#include "base/nobodys.hpp"

#include <csignal>
#include <fcntl.h>
#include <optional>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

namespace cryo {

// The kernel lets a process have a lease for writing only if no other has the file open or mapped.
// A process that opens it in that moment makes the kernel send a signal, which is taken here.
bool is_nobodys(int fd)
{
    sigset_t io;
    sigset_t before;
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    pthread_sigmask(SIG_BLOCK, &io, &before);
    const f_owner_ex owner = {F_OWNER_TID, gettid()};
    const bool granted = fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETLEASE, F_WRLCK) == 0;
    if (granted)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    constexpr timespec at_once = {};
    sigtimedwait(&io, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return granted;
}

bool is_named(int fd, const Directory &directory, const std::string &name)
{
    struct stat own = {};
    const Result<std::optional<struct stat>> named = directory.look(name);
    return fstat(fd, &own) == 0 && named && named->has_value() && (*named)->st_dev == own.st_dev &&
           (*named)->st_ino == own.st_ino;
}

} // namespace cryo
