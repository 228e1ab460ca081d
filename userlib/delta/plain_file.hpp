// SPDX-License-Identifier: Apache-2.0
//
// A plain file, of any checkpointer: read in pieces, and checked to be unchanged at the end.
//
//     auto file = PlainFile::open("job.dump");
//     ... read it twice ...
//     if (auto same = (*file)->unchanged(); !same) ...     //  it was written to
#pragma once

#include <memory>
#include <string>
#include <sys/stat.h>

#include "base/fd.hpp"
#include "delta/signature.hpp"

namespace cryo::delta {

class PlainFile : public ByteSource
{
  public:
    static Result<std::unique_ptr<PlainFile>> open(const std::string &path);

    const std::string &name() const override { return name_; }
    uint64_t size() const override { return uint64_t(status_.st_size); }
    Result<void> read(uint64_t offset, MutableBytes to) override;
    Result<void> unchanged() const override;

    uint32_t mode() const { return status_.st_mode & 07777; }
    int64_t modified() const; // nanoseconds since the epoch

  private:
    PlainFile(Fd fd, std::string name, const struct stat &status)
        : fd_(std::move(fd)), name_(std::move(name)), status_(status)
    {}

    Fd fd_;
    std::string name_;
    struct stat status_;
};

} // namespace cryo::delta
