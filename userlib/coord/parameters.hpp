// SPDX-License-Identifier: Apache-2.0
//
// The parameters by which a user of Open MPI tells Cryo what he wants, in Open MPI's own way:
//
//     cr_run mpirun --mca hook_cryo_interval 5m --mca hook_cryo_directory /scratch/me ./app
//
// mca_hook_cryo.so registers them with Open MPI; what they say is done here, because mpirun's node
// is where a job is saved from. On a command line they win over the environment's.
#pragma once

#include "coord/job.hpp"

#include <string>
#include <vector>

namespace cryo::coord {

struct Parameters {
    std::string directory; // of the job's snapshots, or ""
    std::string interval;  // of automatic checkpoints, or ""
    std::string backend;   // or ""
    unsigned keep = 0;     // of those that the program asks for; 0: all of them
};

Parameters parameters_of(const Variables &variables);

// Puts those of a launcher's command line into our environment, from where the launcher, its daemon
// and ompi-checkpoint have them.
void export_parameters(const std::vector<std::string> &words);

} // namespace cryo::coord
