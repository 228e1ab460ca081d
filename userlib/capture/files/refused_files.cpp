// SPDX-License-Identifier: Apache-2.0
#include "capture/files/refused_files.hpp"

#include "resources/about_process.hpp"
#include "resources/kinds.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>

namespace cryo::capture {

using resources::Seen;

namespace {

// Refuses kinds of files that can only be restored by a process that has them.
std::string_view passed_refusal(const Seen &seen)
{
    if (seen.passed_in < 0)
        return "";
    if (const auto what = resources::kind(seen.kind).only_of_processes; !what.empty())
        return what;
    if (seen.info.find("\nlock:") != std::string::npos)
        return "a file that is locked,";
    f_owner_ex owner = {};
    if (seen.shared && (fcntl(seen.shared.get(), F_GETOWN_EX, &owner) != 0 || owner.pid != 0))
        return "something that sends its signals to a process (F_SETOWN),";
    return "";
}

// Of what follows the process in a path of /proc: the thread that it is about, or 0. The main
// thread is there when a restart opens files, but no other one.
pid_t later_thread(std::string_view rest, pid_t pid)
{
    constexpr std::string_view threads = "/task/";
    if (!rest.starts_with(threads))
        return 0;
    rest.remove_prefix(threads.size());
    const auto tid = static_cast<pid_t>(take_number(rest));
    return tid != pid ? tid : 0;
}

// Whether a restart opens the file again in the one process that has it, when the member is there
// that it is about.
bool comes_with_member(const DescriptorLook &look, const Seen &descriptor, const Seen &seen)
{
    return resources::about_process(seen.link) && (seen.flags & O_ACCMODE) == O_RDONLY &&
           std::ranges::none_of(look.descriptors(), [&](const Seen &other) {
               return other.holder != descriptor.holder && &look.open_file_of(other) == &seen;
           });
}

} // namespace

std::string_view refusal(const Seen &seen)
{
    if ((seen.flags & O_PATH) != 0)
        return is_named(seen) ? "" : "an O_PATH reference to something without a name,";
    if (const std::string_view why = passed_refusal(seen); !why.empty())
        return why;
    const resources::Kind &kind = resources::kind(seen.kind);
    return kind.refused != nullptr ? kind.refused(seen) : "";
}

void refuse_files_about_processes(const DescriptorLook &look)
{
    constexpr std::string_view about = "/proc/";
    const std::vector<Holder> &holders = look.holders();
    for (const Seen &one : look.descriptors()) {
        const Seen &seen = look.open_file_of(one);
        if (seen.open_file == 0 || !std::string_view(seen.link).starts_with(about) ||
            seen.kind == image::FileKind::other) // which only one about an ended process is
            continue;
        std::string_view rest = std::string_view(seen.link).substr(about.size());
        const auto pid = static_cast<pid_t>(take_number(rest));
        const auto member = std::ranges::find_if(
            holders, [&](const Holder &other) { return other.proc.pid() == pid; });
        const bool is_saved = member != holders.end();
        const bool is_gone = pid > 0 && !is_saved && kill(pid, 0) != 0 && errno == ESRCH;
        const Holder &holder = look.holder_of(one);
        if (const pid_t tid = later_thread(rest, pid); tid != 0) {
            holder.problems.add(
                fmt::format("descriptor {}: a file about thread {}, {}", one.fd, tid, seen.link),
                "close it before the checkpoint", Passing::when_gone,
                fmt::format("{} {} {}", holder.proc.pid(), one.fd, seen.link));
            continue;
        }
        // One that is not saved may have ended before a restart, and another may have its number.
        // The first of all is always there.
        constexpr pid_t first_of_all = 1;
        if ((pid <= first_of_all && !is_saved) || (member == holders.begin() && one.holder == 0) ||
            (is_saved && comes_with_member(look, one, seen)))
            continue;
        holder.problems.add(fmt::format("descriptor {}: a file about process {}, which is {}, {}",
                                        one.fd, pid,
                                        is_saved  ? "saved, too"
                                        : is_gone ? "gone"
                                                  : "not saved",
                                        seen.link),
                            "close it before the checkpoint", Passing::when_gone,
                            fmt::format("{} {} {}", holder.proc.pid(), one.fd, seen.link));
    }
}

} // namespace cryo::capture
