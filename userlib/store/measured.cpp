// SPDX-License-Identifier: Apache-2.0
#include "store/measured.hpp"

#include "image/checksum.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo::store {

namespace {

Result<StoredFile> measure(int fd, const std::string &name)
{
    StoredFile file{.name = name};
    image::Hasher hasher;
    std::vector<uint8_t> buffer(1 << 20);
    for (;;) {
        const ssize_t n = pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(file.bytes));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno(name, errno);
        if (n == 0)
            break;
        hasher.add({buffer.data(), static_cast<size_t>(n)});
        file.bytes += static_cast<uint64_t>(n);
    }
    file.checksum = hasher.digest().hex();
    return file;
}

} // namespace

Result<Measured::State> Measured::state_of(int fd, const std::string &name)
{
    struct stat status = {};
    if (fstat(fd, &status) != 0)
        return Error::from_errno(name, errno);
    return State{status.st_dev, status.st_ino, status.st_size, status.st_ctim.tv_sec,
                 status.st_ctim.tv_nsec};
}

Result<Measured> Measured::of(const Content &content)
{
    const Result<Fd> file = content.open();
    if (!file)
        return file.error();
    const Result<State> state = state_of(file->get(), content.name);
    if (!state)
        return state.error();
    Result<StoredFile> measured = measure(file->get(), content.name);
    if (!measured)
        return measured.error();
    Measured made;
    made.file_ = std::move(*measured);
    made.state_ = *state;
    return made;
}

Result<void> Measured::check_unchanged(int fd) const
{
    const Result<State> now = state_of(fd, file_.name);
    if (!now)
        return now.error();
    if (*now == state_)
        return {};
    // Perhaps it only lost a name, as an image that is too old to be kept, or got another mode.
    const Result<StoredFile> again = measure(fd, file_.name);
    if (!again)
        return again.error();
    if (again->bytes == file_.bytes && again->checksum == file_.checksum)
        return {};
    return Error(EAGAIN, file_.name + ": was changed while it was sent");
}

} // namespace cryo::store
