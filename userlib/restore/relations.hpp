// SPDX-License-Identifier: Apache-2.0
//
// Which process of a tree makes which other one, in which session and group. Where a parent, or the
// leader of a group, is not in the image, a further process takes its place.
//
//     Result<std::vector<Newborn>> kin = relate(members, options);
#pragma once

#include "restore/planner.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace cryo::restore {

struct TreeMember {
    const image::SnapshotMember *member = nullptr;
    std::unique_ptr<image::Image> image; // null for a zombie
    Saved saved;
};
using TreeMembers = std::vector<std::unique_ptr<TreeMember>>; // the root is the first

// Of the process that had this id; nobody: it is no member.
int number_of(const TreeMembers &all, uint32_t pid);

// One for each member, with the numbers of the members, and then further ones.
Result<std::vector<Newborn>> relate(const TreeMembers &all, const RestartOptions &options);

} // namespace cryo::restore
