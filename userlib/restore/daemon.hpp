// SPDX-License-Identifier: Apache-2.0
//
// Whether a process led a session of its own without a terminal, as daemons do: then the terminal
// and the group of cr_restart are no business of it.
#pragma once

#include "restore/saved.hpp"

namespace cryo::restore {

// `tree`: the records of the whole tree. No daemon is a process of which a standard stream becomes
// a terminal of cr_restart; nor one whose session was that of cr_restart.
bool was_daemon(const Saved &process, const Saved &tree);

} // namespace cryo::restore
