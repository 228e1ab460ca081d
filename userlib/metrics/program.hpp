// SPDX-License-Identifier: Apache-2.0
//
// What is told of the automatic checkpoints of one program, and the file that tells it: a keeper
// writes such files, node_exporter and cr_metrics read them (docs/metrics.md).
//
//     Program program{.pid = 412, .command = "solver"};
//     program.values[checkpoints] = 3;
//     write(file_name(program.pid), text_of(program));
//     Result<Program> again = parse(text, 412);
#pragma once

#include "base/result.hpp"
#include "metrics/exposition.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace cryo::metrics {

// The order is that of program_families.
enum Value : uint8_t {
    checkpoints,
    failures,
    restarts,
    stopped_in_all,
    bytes_in_all,
    stopped_last,
    bytes_last,
    complete_at,
    value_count,
};
extern const std::array<Family, value_count> program_families;

struct Program {
    pid_t pid = 0;
    std::string command = {};
    std::array<std::optional<double>, value_count> values = {}; // nothing: is not told
};

// "cryo-412.prom"
std::string file_name(pid_t pid);
// The process of which a file of that name tells; nothing: it is no such name.
std::optional<pid_t> pid_of(std::string_view name);

// `user` is added to the labels, unless it is empty.
void add(Exposition &text, const Program &program, const std::string &user);
std::string text_of(const Program &program);

// The file may be anybody's work: whatever a keeper would not write is refused (EBADMSG), so that
// nothing in it reaches Prometheus but numbers and the command's name. Families of a later Cryo are
// left out.
Result<Program> parse(std::string_view text, pid_t pid);

} // namespace cryo::metrics
