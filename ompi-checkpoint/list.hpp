// SPDX-License-Identifier: Apache-2.0
//
// The finished snapshots in a directory of jobs' snapshots, one a line.
//
//     return list_snapshots("ompi-checkpoint", "/pfs/job", false);
#pragma once

#include <string>

// The command's exit code.
int list_snapshots(const char *command, const std::string &base, bool as_json);
