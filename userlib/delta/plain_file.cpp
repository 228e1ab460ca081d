// SPDX-License-Identifier: Apache-2.0
#include "delta/plain_file.hpp"

#include <cerrno>
#include <fcntl.h>

namespace cryo::delta {

Result<std::unique_ptr<PlainFile>> PlainFile::open(const std::string &path)
{
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status;
    if (!fd || fstat(fd.get(), &status))
        return Error::from_errno(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is not a regular file; save it to one first");
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
    return std::unique_ptr<PlainFile>(new PlainFile(std::move(fd), path, status));
}

Result<void> PlainFile::read(uint64_t offset, MutableBytes to)
{
    while (!to.empty()) {
        ssize_t n = pread(fd_.get(), to.data(), to.size(), off_t(offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno(name_ + ": reading", errno);
        if (n == 0)
            return Error(EBUSY, name_ +
                                    ": became shorter while it was read; nobody may write to it "
                                    "meanwhile");
        to = to.subspan(size_t(n));
        offset += size_t(n);
    }
    return {};
}

Result<void> PlainFile::unchanged() const
{
    struct stat now;
    if (fstat(fd_.get(), &now))
        return Error::from_errno(name_, errno);
    auto same = [](const timespec &a, const timespec &b) {
        return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
    };
    if (now.st_size == status_.st_size && same(now.st_mtim, status_.st_mtim))
        return {};
    return Error(EBUSY,
                 name_ + ": was written while it was read; give it when its writer has finished");
}

int64_t PlainFile::modified() const
{
    return status_.st_mtim.tv_sec * 1'000'000'000 + status_.st_mtim.tv_nsec;
}

} // namespace cryo::delta
