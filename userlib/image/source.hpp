// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a stored image by offset: mapped, or read with pread(2). Every access is checked
// against the size the file had when it was opened.
//
//     Result<Source> s = Source::open("context.412", Access::pread);
//     Result<Bytes> page = s->view(0, 4096);         // valid until the next view()
#pragma once

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/format.hpp"

namespace cryo::image {

enum class Access {
    pread, // a file that is cut short while it is read is an error like any other
    map,   // no copies; a file that is cut short under the mapping kills the reader (SIGBUS)
};

class Source
{
  public:
    static Result<Source> open(const std::string &path, Access access);
    static Result<Source> open(Fd fd, std::string name, Access access);
    Source(Source &&other) noexcept;
    Source &operator=(Source &&) = delete;
    ~Source();

    uint64_t size() const { return size_; }
    int fd() const { return fd_.get(); }
    bool mapped() const { return map_ != nullptr; }

    // For small pieces that are read in ascending order; at most kMaxView bytes.
    Result<Bytes> view(uint64_t offset, uint64_t length);
    // For large pieces, into the caller's memory.
    Result<void> read(uint64_t offset, MutableBytes to);
    // For large pieces: in place where mapped, else read into `buffer`, which must be large enough.
    Result<Bytes> fetch(uint64_t offset, uint64_t length, MutableBytes buffer);

    static constexpr size_t kMaxView = 1024 * 1024;

  private:
    Source(Fd fd, std::string name, uint64_t size)
        : fd_(std::move(fd)), name_(std::move(name)), size_(size)
    {}
    Result<void> check(uint64_t offset, uint64_t length) const;

    Fd fd_;
    std::string name_;
    uint64_t size_;
    const uint8_t *map_ = nullptr;
    std::vector<uint8_t> window_; // what view() read last
    uint64_t window_at_ = 0;
};

} // namespace cryo::image
