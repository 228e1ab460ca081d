// SPDX-License-Identifier: Apache-2.0
//
// The options of a launcher's command line by which its ranks are placed and reached: a restart
// gives them to the fresh launcher, too.
//
//     const LauncherOptions of_job = launcher_options({"mpirun", "-n", "4", "--oversubscribe",
//                                                      "./app"}, "/srv/ann", {});
//     // of_job.words: {"--oversubscribe"}
#pragma once

#include "coord/new_hosts.hpp"

#include <string>
#include <vector>

namespace cryo::coord {

struct LauncherOptions {
    std::vector<std::string> words = {};
    // The first option that is in no table: where the program begins is not known from there on, so
    // nothing behind it is given again. "": there is none.
    std::string unknown = {};
};

// `command`: a launcher with its words, run in `directory`, against which names of files are
// understood. `instead`: options that the user gives now; they replace what they contradict, also
// behind one that is in no table. So do variables of the environment that set a parameter of Open
// MPI's. `placed`: they say for each rank where it goes, so no option of the job's that would say
// that, too, is given again.
LauncherOptions launcher_options(const std::vector<std::string> &command,
                                 const std::string &directory,
                                 const std::vector<std::string> &instead, bool placed = false);

// The first of these words that decides which rank gets which node: hosts, mappings. "": none.
std::string placing_option(const std::string &launcher, const std::vector<std::string> &words);

// The options that give a launcher these hosts ("n1:4,n2:4"), each with so many ranks. As `instead`
// they also replace what says otherwise how many ranks a host gets, and files that name hosts.
std::vector<std::string> host_options(const std::string &launcher, const std::string &hosts);

// The hosts of a launcher's command line, or of the file that it names. Of names and a file, the
// names alone: the file's other hosts get no ranks.
std::vector<HostRanks> listed_hosts(const std::vector<std::string> &command,
                                    const std::string &directory);

} // namespace cryo::coord
