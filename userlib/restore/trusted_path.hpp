// SPDX-License-Identifier: Apache-2.0
//
// Finds the files that a program had open or mapped, by their saved names. Where others
// may make files (/tmp, after a reboot), an attacker may have put another file there, or
// a link that redirects the program's writing to the victim's own files. So a file must
// belong to its saved owner, to root, to the caller, or to a user named with --owner;
// and so must every symbolic link on the way, as there was none when it was saved. A link
// of the saved owner's leads to files of that owner only, not to what others trust.
//
//     Result<Found> found = find_trusted(options, file); // nothing is opened yet
//     Result<Fd> fd = open_found(*found, flags);         // base/open_found.hpp
#pragma once

#include "base/open_found.hpp"
#include "base/result.hpp"
#include "image/records.hpp"
#include "restore/planner.hpp"

namespace cryo::restore {

// The use of a link at the end of the name; a receiver is a socket whose owner was not saved.
enum class AtEnd { target, link, receiver };

// EPERM: it belongs to another user. Otherwise as open(2). A device belongs to nobody as long as it
// has its saved number. A receiver may belong to any user, if everybody may make files in no
// directory of the path.
Result<Found> find_trusted(const RestartOptions &options, const image::File &file,
                           AtEnd at_end = AtEnd::target);

} // namespace cryo::restore
