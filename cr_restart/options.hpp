// SPDX-License-Identifier: Apache-2.0
//
// The command line of cr_restart.
//
//     Options options;
//     add_options(app, options);
//     if (std::optional<int> done = cli::parse(app, argc, argv)) ...
//     if (Result<void> good = complete(options); !good) ...
#pragma once

#include "backend/backend.hpp"
#include "base/result.hpp"
#include "cli/talk.hpp"
#include "hooks.hpp"
#include "keeper/settings.hpp"
#include "server/url.hpp"

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

struct Options {
    cryo::backend::RestartRequest request;
    std::string image;  // for messages, and to be opened where there is no descriptor
    std::string stored; // its place in an object store, from where it is brought; else empty
    std::optional<cryo::server::Url> url; // where the image has to be fetched from
    std::string backend = "auto";
    bool pidns = false;
    bool ids_chosen = false; // the user says which ids they are to have
    int heartbeat = -1;      // gets a byte whenever a rehearsal progresses
    int supervisor = -1;     // gets a line when the program is back
    int teller = -1;         // whom to ask for owners in a user namespace: base/owner_teller.hpp
    Hooks hooks;
    cryo::keeper::Settings keeping;
    cryo::cli::Talk talk{"cr_restart"};

    // As written on the command line.
    bool omit = false; // one of them is given: see capture/gather/bystanders.cpp
    std::string positional, file, directory;
    std::vector<std::string> owners; // whose images are restarted besides the caller's and root's

    // As the user names it.
    const std::string &shown() const { return stored.empty() ? image : stored; }
};

void add_options(CLI::App &app, Options &options);

// Checks the options together, and sets what follows from them.
cryo::Result<void> complete(Options &options);
