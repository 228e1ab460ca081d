// SPDX-License-Identifier: Apache-2.0
//
// The command line of cr_delta: one subcommand and its options.
//
//     Options options;
//     if (std::optional<int> done = parse(argc, argv, options))
//         return *done;
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "delta/state.hpp"

namespace cryo::delta {

inline constexpr const char *kCommand = "cr_delta";

enum class Verb { add, restore, list, merge, prune, verify, sign, make, apply };

struct Options {
    Verb verb{};
    std::vector<std::string> arguments = {};
    std::string output = {};
    std::string service = {};
    std::string signature = {};
    std::vector<std::string> bases = {};
    bool force = false;
    bool json = false;
    bool quiet = false;

    std::optional<image::DeltaMode> mode = {};
    std::optional<double> threshold = {};
    std::optional<uint32_t> most_images = {};
    std::optional<uint32_t> block_size = {};
    std::optional<uint32_t> package_blocks = {};
    std::optional<image::Packing> packing = {};
    bool complete = false;

    uint32_t onto = 0;
    uint32_t keep = 1;
    uint32_t every = 0;
    bool dry_run = false;
};

// The exit code if there is nothing left to do: help, version, wrong usage.
std::optional<int> parse(int argc, char **argv, Options &options);

} // namespace cryo::delta
