// SPDX-License-Identifier: Apache-2.0
//
// The user's choices about files at a restart.
//
//     FileOptions files;
//     Result<Relocation> one = Relocation::parse("/old/place=/new/place");
//     files.relocations.push_back(*one);
//     files.redirected[1] = "/tmp/output"; // standard output, "-" for cr_restart's own
#pragma once

#include "base/result.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::restore {

constexpr size_t most_relocations = 16;

// Replaces whole leading components of a path.
struct Relocation {
    std::string from, to;

    // "OLD=NEW"; \= and \\ stand for the characters themselves.
    static Result<Relocation> parse(std::string_view text);
    bool applies(std::string_view path) const;
};

struct FileOptions {
    std::vector<Relocation> relocations;   // the first that applies counts
    std::map<int, std::string> redirected; // descriptors 0 to 2
    bool keep_output = false;              // files that cr_restart's own output goes to, too
    bool close_sockets = false;            // kept connections come back as closed, too
};

// The path after the first relocation that applies.
std::string relocated(const FileOptions &options, std::string_view path);

} // namespace cryo::restore
