// SPDX-License-Identifier: Apache-2.0
//
// The file of the agent that can be put into a running program (agent/attached.cpp): what of it has
// to be mapped where, and where it is in a process that has it already.
//
//     Result<AgentLibrary> library = AgentLibrary::read(cli::library(agent::attached_library));
//     if (std::optional<RemoteAddress> base = library->find_in(proc)) ...
#pragma once

#include "base/remote_address.hpp"
#include "base/result.hpp"
#include "look/proc.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cryo::capture {

struct AgentLibrary {
    struct Segment {
        uint64_t address, offset, file_size, memory_size;
        int prot;
    };

    std::string path;
    uint64_t device = 0, inode = 0;
    uint64_t entry = 0; // like all addresses here, from the beginning of the mapped library
    uint64_t span = 0;  // whole pages
    std::vector<Segment> segments;
    std::string head; // the first bytes, which are the same only in a copy of this library

    static Result<AgentLibrary> read(const std::string &path);
    // A restored process has the library as memory without a file.
    std::optional<RemoteAddress> find_in(const Proc &proc) const;
};

} // namespace cryo::capture
