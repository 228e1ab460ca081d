// SPDX-License-Identifier: Apache-2.0
#include "base/lent_mode.hpp"

#include "base/undoing.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo {

namespace {

mode_t wanted(int flags)
{
    switch (flags & O_ACCMODE) {
    case O_RDONLY:
        return S_IRUSR;
    case O_WRONLY:
        return S_IWUSR;
    default:
        return S_IRUSR | S_IWUSR;
    }
}

// Only the owner may set a mode, and setting one may take the set-group-ID bit away.
bool can_be_lent(const struct stat &now, mode_t want)
{
    const bool is_known = S_ISREG(now.st_mode) || S_ISDIR(now.st_mode) || S_ISSOCK(now.st_mode);
    return is_known && now.st_uid == geteuid() && (now.st_mode & (S_ISUID | S_ISGID)) == 0 &&
           (now.st_mode & want) != want;
}

} // namespace

Result<Fd> open_lent(const Found &found, int flags, const std::function<Result<Fd>()> &open)
{
    return open_lent(found.fd.get(), flags, open);
}

Result<Fd> open_lent(int file, int flags, const std::function<Result<Fd>()> &open)
{
    Result<Fd> fd = open();
    if (fd || fd.error().code() != EACCES)
        return fd;
    // Another process may have lent it, too, when it was found, and does so no more; or it does
    // now.
    struct stat now = {};
    const mode_t want = wanted(flags);
    if (fstat(file, &now) == 0 && (now.st_mode & want) == want)
        return open();
    if (!can_be_lent(now, want))
        return fd;
    // The file found, whatever its name leads to by now.
    const std::string path = fmt::format("/proc/self/fd/{}", file);
    const mode_t mode = now.st_mode & 07777;
    const mode_t lent = mode | want;
    // A signal that ends the restart must not leave the mode behind.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    {
        // The next look would take it for the file's own.
        const Undoing after_a_kill("cr_mode", {file}, [&] {
            struct stat then = {};
            if (fstat(file, &then) == 0 && (then.st_mode & 07777) == lent)
                chmod(path.c_str(), mode);
        });
        if (chmod(path.c_str(), lent) == 0) {
            fd = open();
            chmod(path.c_str(), mode);
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return fd;
}

} // namespace cryo
