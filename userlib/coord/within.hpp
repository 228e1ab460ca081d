// SPDX-License-Identifier: Apache-2.0
//
// A job whose launcher is not under cr_run, but whose ranks are: `mpirun -n 4 cr_run ./app`. The
// first of them starts the job's first daemon, and leaves in the job's directory (as .variables)
// what the others, and commands, must know.
//
//     if (is_rank(own_variables()) && own_variables().count(job_variable) == 0)
//         Result<Within> job = job_from_within();      // then its variables into the environment
#pragma once

#include "coord/job.hpp"

#include <string>
#include <sys/types.h>

namespace cryo::coord {

// Whether an MPI launcher has started this process as a rank.
bool is_rank(const Variables &environment);
// Whether it is the first rank of its node, which reports what holds for all of them.
bool is_first_of_node(const Variables &environment);

struct Within {
    Variables variables;
    pid_t launcher = 0;
    bool is_new = false; // made by this call
};

// ENOENT: the launcher is not among the processes above this one, and so on another node.
Result<Within> job_from_within();

// What ranks of this launcher have left in a runtime directory; ENOENT: nothing, or the job has
// ended.
Result<Variables> left_by_ranks(pid_t launcher, const std::string &runtime);

} // namespace cryo::coord
