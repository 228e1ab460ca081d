// SPDX-License-Identifier: Apache-2.0
//
// Which programs get which stand-in for an MPI library. It would be harmless in a program
// without MPI, but not in one with another MPI, which has functions of the same names.
//
//     if (const char *name = stand_in_for(words, is_job)) preload(library(name));
#pragma once

#include <string>
#include <vector>

// The library for what the program needs or starts: by the libraries that its file names,
// or because it is a launcher; else by the launcher that has started this command. srun
// belongs to no MPI: its words are searched for the program, and if that is a script, its
// option decides (--mpi=pmix: Open MPI). If the program starts a job and is no launcher
// (a script, env), a program or a launcher that its words name decides, the words of a
// script among them. Null: none, or unknown. The words are those for execvp.
const char *stand_in_for(const std::vector<std::string> &words, bool is_job);
