// SPDX-License-Identifier: Apache-2.0
// Files of /proc that are about a process. Those about the processes of the image: at the restart
// only the first process opens those that are about itself; the others are not there yet when files
// are opened. And those about one that is gone: nobody can open them, or it is another's by then.
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
