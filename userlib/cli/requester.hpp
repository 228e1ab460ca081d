// SPDX-License-Identifier: Apache-2.0
//
// The report to a program that asked for a checkpoint or restart through libcr: the library has
// started the command with the number of a pipe in CRYO_REPORT_FD, and the command reports once, at
// its end. Without that variable these functions do nothing.
//
//     if (!saved)
//         return cli::fail("cr_checkpoint", saved.error()); // reports
//     cli::tell_requester(0, 0);
#pragma once

#include <cstdint>
#include <string_view>

namespace cryo::cli {

struct RequestReport {
    int32_t error; // 0, errno or CR_E*
    int32_t value; // of a restart: the pid of the restored process, or of what is left of it
};

bool has_requester();
void tell_requester(int error, int value);
bool log_for_requester(std::string_view line); // false: it was not written

} // namespace cryo::cli
