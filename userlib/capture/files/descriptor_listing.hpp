// SPDX-License-Identifier: Apache-2.0
//
// The directories of /proc that tell of a process's descriptors. Names in them are found in half
// the time that a whole path takes.
//
//     const DescriptorListing listing(proc); // of which several threads may ask
//     Result<resources::Seen> seen = listing.look_at(5);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "look/proc.hpp"
#include "resources/seen.hpp"

#include <string>
#include <string_view>

namespace cryo::capture {

class DescriptorListing
{
  public:
    explicit DescriptorListing(const Proc &proc)
        : proc_(proc), links_(open("fd")), infos_(open("fdinfo"))
    {}

    Result<resources::Seen> look_at(int fd) const;
    // The rest, where its fdinfo has been read.
    Result<resources::Seen> look_at(int fd, std::string info) const;
    Result<std::string> link(int fd) const;
    Result<std::string> info(int fd) const;
    // The file that tells of the descriptor: of whatever has that number when it is read.
    Result<Fd> open_info(int fd) const;
    // What such a file says now; ENOENT: there is no such descriptor any more.
    Result<std::string> read_info(const Fd &info, int fd) const;
    bool is_open(int fd) const;

  private:
    Fd open(std::string_view name);
    Error failure(std::string_view where, int fd) const;

    const Proc &proc_;
    int not_opened_ = 0; // an errno
    Fd links_, infos_;
};

// Takes what is parsed from the text of its fdinfo.
void set_info(resources::Seen &seen, std::string text);

} // namespace cryo::capture
