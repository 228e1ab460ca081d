// SPDX-License-Identifier: Apache-2.0
//
// The command line of ompi-restart, which is also called mpi-restart.
//
//     Options options;
//     if (std::optional<int> done = parse(argc, argv, options)) return *done;
#pragma once

#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/job.hpp"
#include "coord/snapshot.hpp"
#include "keeper/settings.hpp"

#include <optional>
#include <string>
#include <vector>

struct Options {
    const char *command = "ompi-restart"; // the name by which it was called
    std::string handle;
    std::string where;
    int seq = -1;
    std::string hostfile;
    std::string hosts;                  // "n1:4,n9:4"
    std::optional<std::string> weights; // "" is a mistake
    std::optional<std::string> weights_file;
    std::string mpirun;
    std::string mpirun_opts;
    bool fork = false;
    bool info = false;
    bool heal = false;
    bool bring = false;
    bool fetch = false;
    bool apponly = false;
    bool showme = false;
    bool dry_run = false;
    bool preload = false;
    bool fresh_options = false;
    bool as_json = false;
    std::vector<std::string>
        owners; // whose snapshots are restarted besides the caller's and root's
    int verbose = 0;
    cryo::coord::Supervision by; // of cr_run --recover
    cryo::keeper::Settings keeping;

    bool has_weights() const { return weights || weights_file; }
};

// The exit code when the command is finished already.
std::optional<int> parse(int argc, char **argv, Options &options);

// The store that they name.
cryo::Result<cryo::coord::SnapshotStore> find_store(const Options &options);
cryo::Result<cryo::Trust> trust_of(const Options &options);
