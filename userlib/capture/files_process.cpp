// SPDX-License-Identifier: Apache-2.0
// Files in /proc about a process. For saved processes, a restart can reopen only the
// first process's files about itself, since the others do not exist yet when files are opened.
// Files about a process that is gone cannot be opened, or its pid is reused by then.
#include "capture/files.hpp"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>

namespace cryo::capture {

void Files::refuse_files_about_processes()
{
    constexpr std::string_view about = "/proc/";
    for (size_t holder = 0; holder < holders_.size(); holder++) {
        for (const image::Descriptor &descriptor : descriptors_[holder]) {
            const Seen &seen = seen_[descriptor_[{holder, static_cast<int>(descriptor.fd)}]];
            if (seen.open_file == 0 || !std::string_view(seen.link).starts_with(about))
                continue;
            std::string_view rest = std::string_view(seen.link).substr(about.size());
            const auto pid = static_cast<pid_t>(take_number(rest));
            const auto member = std::ranges::find_if(
                holders_, [&](const Holder &other) { return other.proc.pid() == pid; });
            const bool is_saved = member != holders_.end();
            const bool is_gone = pid > 0 && !is_saved && kill(pid, 0) != 0 && errno == ESRCH;
            if (!(is_saved || is_gone) || (member == holders_.begin() && holder == 0))
                continue;
            holders_[holder].problems.add(
                fmt::format("descriptor {}: a file about process {}, which is {}, {}",
                            descriptor.fd, pid, is_saved ? "saved, too" : "gone", seen.link),
                "close it before the checkpoint", Passing::when_gone,
                fmt::format("{} {} {}", holders_[holder].proc.pid(), descriptor.fd, seen.link));
        }
    }
}

} // namespace cryo::capture
