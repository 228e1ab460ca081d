// SPDX-License-Identifier: Apache-2.0
//
// Regular files that were open for writing are cut back to the sizes that they had when they were
// saved: at the very end of a restart, when nothing else can fail any more.
//
//     const Cuts cuts(opening, locks, only_passed);
//     ... // closes all that the process does not have any more, but cuts.spared()
//     cuts.plan();
#pragma once

#include "resources/opening.hpp"

#include <map>
#include <set>
#include <string>

namespace cryo::resources {

// Which of this command's own output streams goes to the regular file of this name: 1 or 2; −1:
// neither.
int own_output(const std::string &path);

class Cuts
{
  public:
    // For a process that has these locks. `only_passed`: open files that no process has, of which
    // this one takes care.
    Cuts(Opening &opening, const std::vector<image::Lock> &locks,
         const std::set<uint32_t> &only_passed);

    // Inherited descriptors that are needed until then.
    std::set<int> spared() const;
    void plan() const;

  private:
    int locked_by(uint32_t file) const;
    void keep_time(const image::File &file, int fd) const;
    void tell(const image::File &file) const;

    Opening &opening_;
    const std::vector<image::Lock> &locks_;
    // By FILE: the open file by which each is cut, of those that the process has.
    std::map<uint32_t, uint32_t> by_itself_;
    // Files that are open in messages only: the descriptor that was inherited. By its name, another
    // one could be cut by now.
    std::map<uint32_t, int> for_messages_;
};

} // namespace cryo::resources
