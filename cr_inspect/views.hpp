// SPDX-License-Identifier: Apache-2.0
//
// The ways to look at images, one per option. Each prints to standard output, says what is wrong
// on standard error, and returns the exit code.
//
//     return show_summaries(sources, out);
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cli/text.hpp"
#include "input.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

void show_summary(const Entry &entry, const Output &out);                           // summary.cpp
void show_table(const std::vector<Source> &sources, const Output &out);             // table.cpp
void show_maps(const Entry &entry, const Output &out);                              // maps.cpp
void show_files(const Entry &entry, const Output &out);                             // files.cpp
void show_records(const Entry &entry, const Output &out);                           // records.cpp
int show_json(const std::vector<Source> &sources);                                  // json.cpp
int verify(const Input &input, const Options &options, const Output &out);          // verify.cpp
int show_difference(const Input &input, const Options &options, const Output &out); // diff.cpp
Result<void> extract(const Input &input, const Options &options);                   // extract.cpp
int show_page(const Input &input, const Options &options);                          // html/page.cpp

// "signal 11", "fd 3": a readable name for what a record is about.
std::string label_of(const StoredRecord &record); // records.cpp

void print_json(const nlohmann::ordered_json &json); // json.cpp

// Prints an error, with what is still known about the file.
void complain(const Error &error, const std::string &path);
// Of all that could not be read; true if everything could.
bool complain_of(const Source &source);

} // namespace cryo::inspect
