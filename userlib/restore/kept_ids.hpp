// SPDX-License-Identifier: Apache-2.0
//
// Which of the saved ids a restart gives again that prefers these, but does without them where they
// are in use or may not be chosen (RestartOptions::prefer_pid).
//
//     const std::string why = choose_kept_ids(members, options);
//     if (std::optional<std::string> warning = new_ids(members, options, why)) ...
#pragma once

#include "restore/relations.hpp"

#include <optional>
#include <string>

namespace cryo::restore {

// Sets restore_pid if all can be had, else kept_ids. Returned is why some cannot; empty: all can.
std::string choose_kept_ids(const TreeMembers &all, RestartOptions &options);

// Names the processes of a tree that have new ids, which the others may know. A process without any
// other is known to no member.
std::optional<std::string> new_ids(const TreeMembers &all, const RestartOptions &options,
                                   const std::string &why);

// Whether a restart may have failed because another one was faster to take an id.
bool is_about_ids(const Error &error);

} // namespace cryo::restore
