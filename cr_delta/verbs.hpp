// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of cr_delta, one function for each. Each prints its result to standard output and
// returns what went wrong.
//
//     Result<void> done = add(options);
#pragma once

#include <nlohmann/json.hpp>

#include "cli/text.hpp"
#include "delta/service.hpp"
#include "options.hpp"

namespace cryo::delta {

using Json = nlohmann::ordered_json;

Result<void> add(const Options &options);     // automatic.cpp
Result<void> restore(const Options &options); // automatic.cpp
Result<void> merge(const Options &options);   // automatic.cpp
Result<void> prune(const Options &options);   // automatic.cpp
Result<void> sign(const Options &options);    // controlled.cpp
Result<void> make(const Options &options);    // controlled.cpp
Result<void> apply(const Options &options);   // controlled.cpp
Result<void> list(const Options &options);    // show.cpp
Result<void> verify(const Options &options);  // verify.cpp

// Describes a version in words: "delta on version 1, 12 of 2048 blocks".
std::string words_of(const Entry &entry);
Json json_of(const Entry &entry);
Json json_of(const About &about);
// Prints it with the members that every answer has.
void print_json(const Options &options, Json json);

// Writes the contents of a version to the place that -o names, and says so.
Result<void> write_output(const Options &options, Version &version, ByteSource *base_file);

} // namespace cryo::delta
