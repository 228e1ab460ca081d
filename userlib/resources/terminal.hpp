// SPDX-License-Identifier: Apache-2.0
//
// Opens the other end of a restored pseudo-terminal, for a session that has it as its terminal and
// of which no process has it open.
//
//     Result<Fd> slave = open_other_end(master, saved);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

namespace cryo::resources {

Result<Fd> open_other_end(int master, const image::Terminal &saved);

} // namespace cryo::resources
