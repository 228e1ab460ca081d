// SPDX-License-Identifier: Apache-2.0
//
// Messages that ranks wait for during a checkpoint: those that this rank has told the tree, and
// those that other ranks want of this one, which must run on until it has sent them.
//
//     needs.announce({.from = self, .to = 5, .have = 3});   // in a loop that waits
//     needs.withdraw();                                     // it waits no more
//     needs.add(message.need);                              // the tree says: another rank waits
//     needs.is_needed()                                     // this rank must not stop yet
#pragma once

#include "bookmark/communicators.hpp"
#include "bookmark/reports.hpp"

namespace cryo::bookmark {

class Needs
{
  public:
    Needs(const Communicators &communicators, Reports &reports, std::pmr::memory_resource *memory);
    Needs(const Needs &) = delete;
    Needs &operator=(const Needs &) = delete;

    // This rank's own. Tells the tree what is new.
    void announce(const Need &need);
    void withdraw();
    // The first that was announced and not withdrawn; null: none.
    const Need *own() const { return own_.empty() ? nullptr : &own_.front(); }

    // Of other ranks, as the tree tells.
    void add(const Need &need);
    void remove(const Need &need);
    // `by_name`: a receive from any source does not count.
    bool is_needed(bool by_name = false) const;
    WorldRank first_waiting() const { return others_.front().by; } // if is_needed()

    void clear();

  private:
    struct Needed { // another rank needs messages from this one until more than `sent` went to it
        WorldRank by;
        CommId comm;
        uint64_t sent;
    };

    const Communicators &communicators_;
    Reports &reports_;
    std::pmr::vector<Need> own_; // announced to the tree and not withdrawn
    std::pmr::vector<Needed> others_;
};

} // namespace cryo::bookmark
