// SPDX-License-Identifier: Apache-2.0
//
// Open MPI's commands take long options with one dash, and "-mca name value" with two words.
// Scripts that were written for them still do: their words are put into the form that CLI11 reads.
//
//     legacy::Words words = legacy::normalise(argc, argv, {"hnp-pid", "mca"});
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace cryo::legacy {

using Parameters = std::vector<std::pair<std::string, std::string>>;

struct Words {
    std::vector<std::string> words; // without the command's name
    Parameters parameters;          // of -mca, -gmca
};

// `long_options`: those of which "-name" means "--name". Everything behind "--" stays.
Words normalise(int argc, char **argv, const std::vector<std::string> &long_options);

// The name for messages: `name` ("ompi-restart"), or the neutral one ("mpi-restart") if that is
// what the caller typed.
const char *called(char **argv, const char *name);

} // namespace cryo::legacy
