// SPDX-License-Identifier: Apache-2.0
//
// Fd owns one file descriptor and closes it.
//
//     Fd f(open(path, O_RDONLY | O_CLOEXEC));
//     if (!f)
//         return Error::from_errno(path, errno);
#pragma once

#include <unistd.h>
#include <utility>

namespace cryo {

class Fd
{
  public:
    Fd() = default;
    explicit Fd(int fd) : fd_(fd) {}
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Fd &operator=(Fd &&other) noexcept
    {
        if (this != &other)
            reset(std::exchange(other.fd_, -1));
        return *this;
    }
    ~Fd() { reset(); }

    explicit operator bool() const { return fd_ >= 0; }
    int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }
    void reset(int fd = -1)
    {
        if (fd_ >= 0)
            close(fd_);
        fd_ = fd;
    }

  private:
    int fd_ = -1;
};

} // namespace cryo
