// SPDX-License-Identifier: Apache-2.0
//
// Finds reasons not to save these members together, and facts to report about them: their sessions,
// users and keys.
//
//     add_objections(members, zombies);          // to the problems of each
//     add_remarks(members, outcome.notices);
#pragma once

#include "capture/gather/everybody.hpp"

#include <string>
#include <vector>

namespace cryo::capture {

// Refuses members whose session cannot be recreated because its leader has ended, and members
// whose user is not the first member's.
void add_objections(const Members &members, const std::vector<Relation> &zombies);

// Adds a notice if the members belong to another user than ours, and one for each member that has
// keys which are not saved, or shares its working directory with a parent that is not saved.
void add_remarks(const Members &members, std::vector<std::string> &notices);

} // namespace cryo::capture
