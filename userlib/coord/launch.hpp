// SPDX-License-Identifier: Apache-2.0
//
// Making a job of what mpirun is about to start.
//
//     if (is_launcher(words.front()))
//         Result<void> done = make_job(words);     // then execvp(words): this process is mpirun
#pragma once

#include "base/result.hpp"
#include "coord/job.hpp"

#include <string>
#include <vector>

namespace cryo::coord {

// The path at which execvp would find it, with all links resolved.
std::string whole_path(const std::string &program);

// By its name: mpirun, mpiexec, orterun, prterun, srun, and these with a suffix.
bool is_launcher(const std::string &program);

// MPICH's.
bool is_hydra(const std::string &launcher);

// Open MPI's before 5.0.
bool is_orterun(const std::string &launcher);

// Slurm's.
bool is_srun(const std::string &launcher);

// Starts the job's first daemon for this process, which is going to be the launcher, and puts what
// ranks must know into its environment. Open MPI's launcher gets options that take these variables
// (and the preloaded libraries) to other nodes, by name: values do not belong on a command line.
// It may stand behind a command such as env or timeout. `by`: see start_job().
Result<void> make_job(std::vector<std::string> &words, const Supervision &by = {});
// Puts what a job's first daemon has printed into the environment of the future launcher.
// CRYO_LISTEN is an address of this node: MPICH's and Slurm's launchers would pass it on to the
// others.
void set_variables(const Variables &variables, const std::string &launcher);
// The names of those variables, and of cr_run's settings for ranks, as options. MPICH's and Slurm's
// launchers take their whole environment along.
std::vector<std::string> export_options(const std::string &launcher);

} // namespace cryo::coord
