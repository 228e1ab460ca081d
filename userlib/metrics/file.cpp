// SPDX-License-Identifier: Apache-2.0
#include "metrics/file.hpp"

#include "base/write_all.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::metrics {

Result<ino_t> write_for_all(const Directory &directory, const std::string &name,
                            std::string_view text)
{
    constexpr mode_t for_all_readers = 0644;
    // No other user can make names in the directory, so that this one is there only if a process
    // was killed that wrote the same file.
    const std::string fresh = fmt::format(".{}.tmp", name);
    if (unlinkat(directory.fd(), fresh.c_str(), 0) != 0 && errno != ENOENT)
        return Error::from_errno(directory.path(fresh), errno);
    Fd fd(openat(directory.fd(), fresh.c_str(),
                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, for_all_readers));
    struct stat status = {};
    if (!fd)
        return Error::from_errno(directory.path(fresh), errno);
    int error = fstat(fd.get(), &status) != 0 || fchmod(fd.get(), for_all_readers) != 0 ? errno : 0;
    if (error == 0) {
        const Result<void> written = write_all(fd.get(), name, text);
        error = written ? 0 : written.error().code();
    }
    if (close(fd.release()) != 0 && error == 0)
        error = errno; // NFS says only here that the disk is full
    if (error == 0 && renameat(directory.fd(), fresh.c_str(), directory.fd(), name.c_str()) != 0)
        error = errno;
    if (error != 0) {
        unlinkat(directory.fd(), fresh.c_str(), 0);
        return Error::from_errno(directory.path(name), error);
    }
    return status.st_ino;
}

} // namespace cryo::metrics
