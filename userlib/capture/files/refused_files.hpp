// SPDX-License-Identifier: Apache-2.0
//
// Open files that cannot be saved, or not opened again, whatever they hold.
//
//     if (const std::string_view why = refusal(seen); !why.empty())
//         saving.refuse(seen, fmt::format("{} {}", why, seen.link), "close it ...");
//     refuse_files_about_processes(look); // once the others have their records
#pragma once

#include "capture/files/descriptor_look.hpp"
#include "resources/seen.hpp"

#include <string_view>

namespace cryo::capture {

// Why an open file cannot be saved, judged by its kind alone; empty: it can.
std::string_view refusal(const resources::Seen &seen);

// Files in /proc about a process. For saved processes, a restart can reopen only the
// first process's files about itself, since the others do not exist yet when files are opened.
// Files about a process that is gone cannot be opened, or its pid is reused by then.
void refuse_files_about_processes(const DescriptorLook &look);

} // namespace cryo::capture
