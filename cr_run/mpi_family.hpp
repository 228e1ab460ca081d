// SPDX-License-Identifier: Apache-2.0
//
// Which programs get which library that stands in for an MPI's. In a program without MPI it would
// be harmless, but not in one of another MPI: they have functions of the same names.
//
//     if (const char *name = stand_in_for(words)) preload(library(name));
#pragma once

#include <string>
#include <vector>

// The library for what the program needs, or starts: by the libraries that it names, or as it is a
// launcher's; else by the launcher that has started this command. srun belongs to no MPI: what it
// starts is looked for in its words, and where that is a script, the kind of MPI that it is told
// (--mpi=pmix: Open MPI). Null: none. The words as for execvp.
const char *stand_in_for(const std::vector<std::string> &words);
