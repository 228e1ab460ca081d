// SPDX-License-Identifier: Apache-2.0
//
// A file before it is put somewhere: its size and checksum, and later whether it is still the same.
//
//     Result<Measured> before = Measured::of(content);
//     ... put before->file() there ...
//     Result<void> same = before->check_unchanged(fd);
#pragma once

#include "base/result.hpp"
#include "store/contents.hpp"
#include "store/manifest.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace cryo::store {

class Measured
{
  public:
    // Reads all of it.
    static Result<Measured> of(const Content &content);
    Measured() = default;

    const StoredFile &file() const { return file_; }
    // EAGAIN: its contents were changed since.
    Result<void> check_unchanged(int fd) const;

  private:
    struct State {
        dev_t device = 0;
        ino_t inode = 0;
        off_t size = 0;
        int64_t written_s = 0, written_ns = 0;
        bool operator==(const State &) const = default;
    };
    static Result<State> state_of(int fd, const std::string &name);

    StoredFile file_ = {};
    State state_ = {};
};

} // namespace cryo::store
