// SPDX-License-Identifier: Apache-2.0
//
// What the kernel told a program when it was executed: its auxiliary vector (getauxval(3)).
//
//     auxiliary_value(Proc(412), AT_BASE)   // where its loader is
#pragma once

#include "look/proc.hpp"

#include <cstdint>
#include <string_view>

namespace cryo::capture {

// 0: there is no such entry. `vector`: as /proc/PID/auxv has it.
uint64_t auxiliary_value(std::string_view vector, uint64_t type);
// 0 also if the vector may not be read.
uint64_t auxiliary_value(const Proc &proc, uint64_t type);

// Whether its program got more rights than the user who executed it: setuid, setgid, capabilities.
// The dynamic loader preloads nothing into such a program.
bool has_gained_rights(const Proc &proc);

} // namespace cryo::capture
