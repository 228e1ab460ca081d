// SPDX-License-Identifier: Apache-2.0
//
// The command line of cr_checkpoint.
//
//     Options options;
//     add_options(app, options);
//     if (std::optional<int> done = cli::parse(app, argc, argv)) return *done;
//     if (Result<void> good = complete(options); !good) ...
#pragma once

#include "base/result.hpp"
#include "capture/checkpoint.hpp"
#include "cli/common_options.hpp"
#include "cli/talk.hpp"
#include "server/url.hpp"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

struct Options {
    int id = 0;
    cryo::capture::CheckpointOptions capture;
    std::string used; // the name of the backend that was chosen
    int handle = -1;  // of the process, if the caller has one
    int teller = -1;  // whom to ask for owners in a user namespace: base/owner_teller.hpp
    std::optional<cryo::server::Url> second_url; // what `second` is, if it is at a server
    cryo::cli::Talk talk{"cr_checkpoint"};

    // As written on the command line.
    bool cwd = false;
    std::string file, directory, second;
    int fd = -1;
    bool nosync = false;
    bool rehearse = false;
    bool attach = false;
    bool may_write_into = false; // --clobber: a FIFO or a device is no reason to refuse
    std::string backup;
    std::string snapshot = "auto";
    cryo::cli::CommonOptions common; // without `compress`: none, with a delta auto
};

void add_options(CLI::App &app, Options &options);

// Checks the options together, and sets what follows from them.
cryo::Result<void> complete(Options &options);
