// SPDX-License-Identifier: Apache-2.0
//
// The kernel is slow to tell of a descriptor by its name in /proc, and a program may have many. So
// they are looked at before the program is stopped. What can change without another file being
// opened is read in the stop all the same: position, flags, locks and the like, from files of /proc
// that are open by then. What an open file is (its name, its inode) is taken from before if the
// kernel tells of the same mount and inode; and it is to be confirmed by the open file itself.
//
//     EarlyDescriptors early = EarlyDescriptors::at(proc);           // while it runs
//     Result<std::optional<Seen>> seen = early.look_at(5, listing);  // while it is stopped
//     if (seen && *seen && (*seen)->early) ... // fstat(2) must give this inode,
//                                              // and its name must lead there
//
// A file whose name may be another one of the same inode (a second link) is looked at in the stop.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/files/descriptor_listing.hpp"
#include "look/proc.hpp"
#include "resources/seen.hpp"

#include <cstddef>
#include <optional>
#include <vector>

namespace cryo::capture {

class EarlyDescriptors
{
  public:
    // Empty: everything is read in the stop.
    EarlyDescriptors() = default;
    EarlyDescriptors(EarlyDescriptors &&) = default;
    EarlyDescriptors &operator=(EarlyDescriptors &&other) noexcept;
    ~EarlyDescriptors() { close_infos(); }
    // Of a running program; empty if it has too few for this to pay off.
    static EarlyDescriptors at(const Proc &proc);

    bool empty() const { return all_.empty(); }
    std::vector<int> numbers() const; // ascending
    // As DescriptorListing::look_at(); no value: it is closed now.
    Result<std::optional<resources::Seen>> look_at(int fd, const DescriptorListing &listing) const;
    // Gives back the descriptors that this has itself. How many all of these have, in this process:
    void close_infos();
    static size_t infos();

  private:
    // Stays as long as the descriptor leads to this inode of this mount.
    struct Identity {
        uint64_t mount = 0, inode = 0;
        bool operator==(const Identity &) const = default;
    };
    struct One {
        resources::Seen seen;             // without `info` and what is parsed from it
        std::optional<Identity> identity; // none: `seen` is no use in the stop
        Fd info;
    };

    static std::optional<Identity> identity_of(std::string_view info);
    static Result<One> look(int fd, const DescriptorListing &listing, size_t most_infos);

    std::vector<One> all_; // by number
};

} // namespace cryo::capture
