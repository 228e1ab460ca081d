// SPDX-License-Identifier: Apache-2.0
//
// What cr_status and cr_top put into their columns.
//
//     table.add({number_text(pid), age_text(taken_ns)});
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace cryo::survey {

// "1.5 s ago"; "-": never.
std::string age_text(int64_t since_1970_ns);
// "-" for 0.
std::string number_text(pid_t number);
// Words that end with NUL each, as in /proc/PID/cmdline, with blanks between them.
std::string words_of(std::string_view joined);

} // namespace cryo::survey
