// SPDX-License-Identifier: Apache-2.0
//
// What Cryo adds to a launcher's command line, and the line without it.
//
//     for (const std::string &word : without_exports(command)) ... // as the user has written it
#pragma once

#include "coord/leash.hpp"
#include "coord/place.hpp"
#include "coord/placement.hpp"

#include <optional>
#include <string>
#include <vector>

namespace cryo::coord {

// What ranks must know, and where code for any CPU is chosen, what cr_run has set for that.
inline constexpr const char *exported[] = {job_variable,     "CRYO_DAEMON",   "CRYO_RUNTIME_DIR",
                                           "LD_PRELOAD",     "CRYO_DEADLINE", "CRYO_SIGNAL",
                                           weights_variable, fenced_variable};
inline constexpr const char *exported_for_any_cpu[] = {"CRYO_CPU", "GLIBC_TUNABLES"};

// A launcher's command line without the options by which Open MPI's takes these variables along
// (export_options() in launch.hpp).
std::vector<std::string> without_exports(std::vector<std::string> words);

// Of a job that ompi-restart has brought back: the launcher and its options, which are followed by
// opal-restart in place of the program. None: it was not brought back.
std::optional<std::vector<std::string>> before_restart(const std::vector<std::string> &words);

} // namespace cryo::coord
