// SPDX-License-Identifier: Apache-2.0
//
// A job: its name, its secret, and where its first daemon is; where its files lie on a node; how it
// is found from the PID of mpirun, and how it begins.
//
//     Result<Variables> set = start_job(getpid());     // then the caller becomes mpirun
//     Result<Job> job = job_of(pid_of_mpirun);
//     Result<Fd> root = connect_root(*job);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <map>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::coord {

using Variables = std::map<std::string, std::string>;

struct Job {
    std::string id;
    std::string secret;
    uint16_t port = 0;
    std::vector<std::string> addresses; // of the node of the first daemon
    std::string directory;              // on this node
    pid_t launcher = 0;
    std::string series = {}; // of Supervision; only the first daemon knows it

    std::string root_socket() const { return directory + "/.root"; }
    std::string text() const; // the value of CRYO_JOB
};

// Reads a job from the variables of a process; ENOENT: it belongs to no job.
Result<Job> job_from(const Variables &variables);
// The environment with which the process `pid` was executed.
Result<Variables> variables_of(pid_t pid);
Result<Job> job_of(pid_t pid);
Variables own_variables();

// Makes a directory that no other user may read or change, or accepts such a one.
Result<void> make_private(const std::string &path);
// make_runtime() makes the directory of jobs. If another user has made the usual one
// in /tmp, it makes one with an unpredictable name, which the caller has to remove.
Result<std::string> make_runtime(const std::string &usual);
// Locks that keep a job's directory, as long as they are open; a child by fork() shares them.
struct Held {
    Fd alive;     // from sweep_directories(), on all nodes that see the directory
    Fd directory; // from systemd-tmpfiles, which removes what is old in /tmp, but nothing locked
};
// Makes the runtime directory and the job's, which must be ours alone.
Result<Held> hold_directories(const std::string &runtime, const std::string &job,
                              const std::string &node);
// Removes the directories of jobs whose launchers and daemons have ended, or whose
// launchers run on another node and whose daemons here have ended.
void sweep_directories(const std::string &path);

// Starts the first daemon of a job whose launcher is, or is going to be, the process `launcher`.
// A job that is brought back by itself (cr_run --recover).
struct Supervision {
    // A pipe on which the daemon tells how the job stands (coord/supervised.hpp); -1: nobody asks.
    int report = -1;
    // Has all snapshots of the job, whichever launcher it had: they are kept, and removed, as one.
    std::string series = {};
};
// What it returns belongs into the launcher's environment.
Result<Variables> start_job(pid_t launcher, const Supervision &by = {});

// To the job's first daemon, on its node.
Result<Fd> connect_root(const Job &job);
Result<Fd> connect_path(const std::string &path);
Result<Fd> listen_at(const std::string &path);

} // namespace cryo::coord
