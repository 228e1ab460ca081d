// SPDX-License-Identifier: Apache-2.0
#include "destination.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

#include "base/write_all.hpp"

namespace cryo::inspect {

Result<Destination> Destination::open(const std::string &path)
{
    if (path == "-")
        return Destination(Fd(dup(STDOUT_FILENO)), "standard output", false);
    Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!fd && errno == EEXIST)
        return Error(EEXIST, path + ": exists; choose another name");
    if (!fd)
        return Error::from_errno(path, errno);
    return Destination(std::move(fd), path, true);
}

Result<void> Destination::write(image::Bytes bytes)
{
    at_ += bytes.size();
    return write_all(fd_.get(), name_ + ": writing", bytes);
}

bool Destination::skip(uint64_t length)
{
    if (!file_ || lseek(fd_.get(), off_t(length), SEEK_CUR) < 0)
        return false;
    at_ += length;
    return true;
}

Result<void> Destination::finish()
{
    if (file_ && ftruncate(fd_.get(), off_t(at_)))
        return Error::from_errno(name_ + ": writing", errno);
    return {};
}

void Destination::discard() const
{
    if (file_)
        unlink(name_.c_str());
}

} // namespace cryo::inspect
