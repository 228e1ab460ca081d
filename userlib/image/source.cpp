// SPDX-License-Identifier: Apache-2.0
#include "image/source.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "image/header.hpp"

namespace cryo::image {

namespace {

constexpr uint64_t kReadAhead = 64 * 1024;
static_assert(Source::kMaxView >= kPrefixSize + kMaxRecord);

} // namespace

Result<Source> Source::open(const std::string &path, Access access)
{
    // O_NONBLOCK: the file may be a FIFO without a writer, on which open() would block.
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    Fd fd(::open(path.c_str(), flags));
    if (!fd && errno == ELOOP)
        return Error(ELOOP, path + ": is a symbolic link; name the image itself");
    if (!fd)
        return Error::from_errno(path, errno);
    return open(std::move(fd), path, access);
}

Result<Source> Source::open(Fd fd, std::string name, Access access)
{
    struct stat st;
    if (fstat(fd.get(), &st))
        return Error::from_errno(name, errno);
    if (S_ISDIR(st.st_mode))
        return Error(EISDIR, name + ": is a directory");
    if (!S_ISREG(st.st_mode))
        return Error(ESPIPE,
                     name + ": is no regular file; a stream is read from a descriptor (-F)");
    Source s(std::move(fd), std::move(name), uint64_t(st.st_size));
    if (access == Access::map && s.size_) {
        void *p = mmap(nullptr, s.size_, PROT_READ, MAP_SHARED, s.fd_.get(), 0);
        if (p == MAP_FAILED)
            return Error::from_errno(s.name_ + ": mmap", errno);
        s.map_ = static_cast<const uint8_t *>(p);
    }
    return s;
}

Source::Source(Source &&other) noexcept
    : fd_(std::move(other.fd_)), name_(std::move(other.name_)), size_(other.size_),
      map_(std::exchange(other.map_, nullptr)), window_(std::move(other.window_)),
      window_at_(other.window_at_)
{}

Source::~Source()
{
    if (map_)
        munmap(const_cast<uint8_t *>(map_), size_);
}

Result<void> Source::check(uint64_t offset, uint64_t length) const
{
    if (offset > size_ || length > size_ - offset)
        return damaged(fmt::format("truncated: bytes {} to {} are beyond its end at {}", offset,
                                   offset + length, size_));
    return {};
}

Result<void> Source::read(uint64_t offset, MutableBytes to)
{
    if (auto ok = check(offset, to.size()); !ok)
        return ok;
    if (map_) {
        memcpy(to.data(), map_ + offset, to.size());
        return {};
    }
    while (!to.empty()) {
        ssize_t n = pread(fd_.get(), to.data(), to.size(), off_t(offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno(fmt::format("reading at {}", offset), errno);
        if (n == 0)
            return damaged(fmt::format("truncated while it was read, at {}", offset));
        to = to.subspan(size_t(n));
        offset += uint64_t(n);
    }
    return {};
}

Result<Bytes> Source::view(uint64_t offset, uint64_t length)
{
    assert(length <= kMaxView);
    if (auto ok = check(offset, length); !ok)
        return ok.error();
    if (map_)
        return Bytes(map_ + offset, length);
    if (offset < window_at_ || offset + length > window_at_ + window_.size()) {
        window_.resize(std::min(std::max(length, kReadAhead), size_ - offset));
        window_at_ = offset;
        if (auto ok = read(offset, window_); !ok) {
            window_.clear();
            return ok.error();
        }
    }
    return Bytes(window_).subspan(offset - window_at_, length);
}

Result<Bytes> Source::fetch(uint64_t offset, uint64_t length, MutableBytes buffer)
{
    if (auto ok = check(offset, length); !ok)
        return ok.error();
    if (map_)
        return Bytes(map_ + offset, length);
    assert(length <= buffer.size());
    MutableBytes to = buffer.first(length);
    if (auto ok = read(offset, to); !ok)
        return ok.error();
    return Bytes(to);
}

} // namespace cryo::image
