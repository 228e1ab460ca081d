// SPDX-License-Identifier: Apache-2.0
//
// What counts as a fault of a program, and how often it is brought back: the defaults, or a file.
//
//     [recovery]
//     without_image = "begin"        # or "give-up"
//     [[fault]]
//     detector = "process"
//     recover = "restart"            # or "transfer": the newest image is held in memory
//     memory = "4GiB"                # of which it may take so much
//     lazy = true                    # and it is mapped from there, not read
//     signals = ["KILL", "SEGV"]     # ends by these are faults
//     exits = [75]                   # and so are these exit statuses
//     limit = 3                      # faults without a newer image in between
//     [[fault]]
//     detector = "physical"          # a node of an MPI job is lost
//     recover = "migration"
//     spares = ["n9"]
//     pack = false                   # without a spare the job is given up
//
//     Result<Policy> policy = read_policy("policy.toml");
#pragma once

#include "base/result.hpp"

#include <csignal>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::recover {

struct Policy {
    // A program that ends by another signal was asked to (HUP, INT, TERM, ...), or has chosen to.
    std::set<int> signals = {SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
    std::set<int> exits = {};
    unsigned limit = 3;
    bool begins_again = true; // from the beginning, while there is no image yet
    // Bytes of memory that the newest image may take (Standby); none: it is not held there.
    std::optional<uint64_t> standby = {};
    bool maps = false; // it is mapped from there, as by cr_restart --lazy, and not read
    // Of jobs that lose a node:
    std::vector<std::string> spares = {}; // which take the places of lost ones
    bool packs = true; // without a spare: the others get more ranks than they have slots
};

// The error names the line, and for a word that is unknown the one most like it.
Result<Policy> parse_policy(std::string_view text, const std::string &path);
Result<Policy> read_policy(const std::string &path);

// "SIGKILL"
std::string signal_name(int signal);

} // namespace cryo::recover
