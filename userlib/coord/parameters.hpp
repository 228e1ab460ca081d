// SPDX-License-Identifier: Apache-2.0
//
// The parameters by which a user of Open MPI configures Cryo, in Open MPI's own way:
//
//     cr_run mpirun --mca hook_cryo_interval 5m --mca hook_cryo_directory /scratch/me ./app
//
// mca_hook_cryo.so registers them with Open MPI; they take effect here, because a job
// is saved from mpirun's node. Those on a command line override the environment's.
#pragma once

#include "coord/job.hpp"

#include <string>
#include <vector>

namespace cryo::coord {

struct Parameters {
    std::string directory;  // of the job's snapshots, or ""
    std::string interval;   // of automatic checkpoints, or ""
    std::string backend;    // or ""
    unsigned keep = 0;      // of snapshots that the program requests; 0: all of them
    std::string local;      // directory of each node for its ranks' images, or ""
    std::string redundancy; // what nodes keep of each other's images there, or ""
};

Parameters parameters_of(const Variables &variables);

// Puts those of a launcher's command line into our environment,
// from which the launcher, its daemon and ompi-checkpoint get them.
void export_parameters(const std::vector<std::string> &words);

} // namespace cryo::coord
