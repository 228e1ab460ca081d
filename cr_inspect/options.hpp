// SPDX-License-Identifier: Apache-2.0
//
// The command line of cr_inspect.
//
//     Options options;
//     if (std::optional<int> done = parse(argc, argv, options))
//         return *done;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cryo::inspect {

inline constexpr const char *kCommand = "cr_inspect";

enum ExitCode {
    kGood = 0,
    kDamaged = 1,   // or could not be read
    kDifferent = 2, // --diff
    kUsage = 255,
};

struct Options {
    std::vector<std::string> files = {};
    bool json = false;
    bool maps = false;
    bool descriptors = false; // --files
    bool records = false;
    bool verify = false;
    bool diff = false;
    bool html = false;
    std::string extract = {};
    std::string output = {};
    std::vector<std::string> bases = {};
    uint32_t pid = 0; // 0: all
    bool all = false; // lists in full
};

// The exit code if there is nothing left to do: help, version, wrong usage.
std::optional<int> parse(int argc, char **argv, Options &options);

} // namespace cryo::inspect
