// SPDX-License-Identifier: Apache-2.0
//
// The command line of cr_store.
//
//     Options options;
//     if (std::optional<int> done = parse(argc, argv, options)) return *done;
#pragma once

#include "cli/talk.hpp"
#include "store/pull.hpp"

#include <optional>
#include <string>

namespace cryo::storing {

inline constexpr const char *command = "cr_store";

enum class Verb { push, pull, list, verify, remove, check };

struct Options {
    Verb verb{};
    std::string file;  // to be pushed
    std::string place; // s3://...
    std::string directory;
    uint64_t rate = 0;      // MiB a second
    uint64_t byte_rate = 0; // in its place: bytes a second
    bool lines = false;     // progress is told by lines of JSON
    bool connect = false;   // the server is asked, too
    uint64_t patience = 60;
    uint64_t part_size = store::usual_part_size;
    unsigned connections = 4;
    cli::Talk talk{command};
};

std::optional<int> parse(int argc, char **argv, Options &options);
store::MoveOptions move_options(Options &options, const std::string &what);

} // namespace cryo::storing
