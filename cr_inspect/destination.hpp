// SPDX-License-Identifier: Apache-2.0
//
// Where -o writes: a new file, for its owner alone, or standard output.
//
//     auto to = Destination::open(options.output);
//     auto ok = to->write(bytes);
//     ok = ok ? to->finish() : ok;
//     if (!ok)
//         to->discard();
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/format.hpp"

namespace cryo::inspect {

class Destination
{
  public:
    // EEXIST: a file that is there stays as it is. "-" is standard output.
    static Result<Destination> open(const std::string &path);

    Result<void> write(image::Bytes bytes);
    // Zeros, without taking space; false: not possible here.
    bool skip(uint64_t length);
    Result<void> finish();
    // A part of a file must not be mistaken for the whole.
    void discard() const;

  private:
    Destination(Fd fd, std::string name, bool file)
        : fd_(std::move(fd)), name_(std::move(name)), file_(file)
    {}

    Fd fd_;
    std::string name_;
    bool file_;
    uint64_t at_ = 0;
};

} // namespace cryo::inspect
