// SPDX-License-Identifier: Apache-2.0
//
// The files that a program had open or mapped, by the names they had. Where others may make files
// (/tmp, after a reboot), somebody else may have put another one there, or a link that leads the
// program's writing to the victim's own files. So what is found must belong to whom it belonged
// when it was saved, to root, to the caller, or to a user named with --owner; and so must every
// symbolic link on the way, of which there was none when it was saved.
//
//     Result<Fd> found = find_trusted(options, file);      // O_PATH, nothing is opened yet
//     Fd fd = open(fmt::format("/proc/self/fd/{}", found->get()), flags);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"
#include "restore/planner.hpp"

namespace cryo::restore {

// EPERM: it is another user's. Otherwise as open(2).
Result<Fd> find_trusted(const RestartOptions &options, const image::File &file);

} // namespace cryo::restore
