// SPDX-License-Identifier: Apache-2.0
//
// A program that does a part of a command's work, since the command does not link what that needs.
// It says by lines of JSON how far it is ({"done": 1, "of": 9}), and last its result, or
// {"error": ...}. It ends with the command.
//
//     Result<nlohmann::json> said = run_helper({path, "put", url}, {.input = image});
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cryo::cli {

using TellProgress = std::function<void(uint64_t done, uint64_t total)>;

struct HelperOptions {
    int input = -1;             // its standard input, also to write there; -1: nothing
    bool quiet = false;         // its standard error is not seen
    TellProgress progress = {}; // what it says of it
};

// What the program has said last; the error that it names, or EIO if it has ended without either.
Result<nlohmann::json> run_helper(std::vector<std::string> words, const HelperOptions &options);

} // namespace cryo::cli
