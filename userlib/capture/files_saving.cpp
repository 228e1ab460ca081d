// SPDX-License-Identifier: Apache-2.0
// What the kinds of open files (resources/) ask for while one is saved.
#include "capture/files.hpp"

#include "capture/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::capture {

uint32_t Files::copied(image::ObjectKind kind, std::string bytes)
{
    if (bytes.empty())
        return 0;
    copied_.push_back({objects_.take(), kind, std::move(bytes)});
    return copied_.back().object;
}

// A descriptor may be closed a moment later, so the problem may be gone by the next try.
void Files::refuse(const Seen &seen, std::string_view what, std::string_view way_out,
                   Passing passing)
{
    Problems &problems = holders_[seen.holder].problems;
    if (seen.passed_in < 0)
        problems.add(fmt::format("descriptor {}: {}", seen.fd, what), std::string(way_out), passing,
                     fmt::format("{} {} {}", proc_of(seen).pid(), seen.fd, seen.link));
    else
        problems.add(fmt::format("descriptor {}: a socket; only a message in it holds {}",
                                 seen.passed_in, what),
                     "receive it before the checkpoint", Passing::soon);
}

const Files::Seen *Files::at(const Seen &beside, int fd) const
{
    const auto found = descriptor_.find({beside.holder, fd});
    return found != descriptor_.end() ? &seen_[found->second] : nullptr;
}

std::set<const Files::Seen *> Files::standard() const
{
    std::set<const Seen *> found;
    for (const auto &[place, seen] : descriptor_) {
        if (place.second <= STDERR_FILENO)
            found.insert(&seen_[seen]);
    }
    return found;
}

const image::File &Files::file(const Seen &seen) const
{
    return files_[open_files_[seen.open_file - 1].file - 1];
}

std::set<pid_t> Files::members(bool with_zombies) const
{
    std::set<pid_t> all = with_zombies ? zombies_ : std::set<pid_t>();
    for (const Holder &holder : holders_)
        all.insert(holder.proc.pid());
    return all;
}

Result<std::string> Files::info_now(const Seen &seen) const
{
    return proc_of(seen).read("fdinfo/" + std::to_string(seen.fd));
}

std::string Files::offer(const Seen &seen, const std::string &link)
{
    return session_peers_.offer(holders_[seen.holder].proc.pid(), members(false), link,
                                seen.flags & O_ACCMODE);
}

Result<std::vector<resources::WatchedPath>> Files::watched(const Seen &seen)
{
    return session_of(seen).descriptors().watched();
}

Result<std::string> Files::messages(const Seen &queue)
{
    return session_of(queue).descriptors().queue(queue.fd);
}

Result<resources::TerminalContents> Files::terminal(const Seen &master)
{
    return session_of(master).descriptors().terminal(master.fd);
}

} // namespace cryo::capture
