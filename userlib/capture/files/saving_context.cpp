// SPDX-License-Identifier: Apache-2.0
#include "capture/files/saving_context.hpp"

#include "capture/files/inherited.hpp"
#include "capture/files/inherited_files.hpp"
#include "capture/session/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::capture {

uint32_t SavingContext::copied(image::ObjectKind kind, std::string bytes)
{
    if (bytes.empty())
        return 0;
    findings_.copied.push_back({objects_.take(), kind, std::move(bytes)});
    return findings_.copied.back().object;
}

// A descriptor may be closed a moment later, so the problem may be gone by the next try.
void SavingContext::refuse(const Seen &seen, std::string_view what, std::string_view way_out,
                           Passing passing)
{
    Problems &problems = look_.holder_of(seen).problems;
    if (seen.passed_in < 0)
        problems.add(fmt::format("descriptor {}: {}", seen.fd, what), std::string(way_out), passing,
                     fmt::format("{} {} {}", look_.proc_of(seen).pid(), seen.fd, seen.link));
    else
        problems.add(fmt::format("descriptor {}: a socket; only a message in it holds {}",
                                 seen.passed_in, what),
                     "receive it before the checkpoint", Passing::soon);
}

Result<size_t> SavingContext::add(Fd fd, const Seen &socket)
{
    return look_.add(std::move(fd), socket);
}

bool SavingContext::is_inherited(const Seen &seen) const
{
    if (!inherited_)
        inherited_ = inherited_files(look_);
    return inherited_->contains(inherited_name(seen.status));
}

Result<std::string> SavingContext::info_now(const Seen &seen) const
{
    return look_.proc_of(seen).read("fdinfo/" + std::to_string(seen.fd));
}

std::string SavingContext::offer(const Seen &seen, const std::string &link)
{
    return session_peers_.offer(look_.holder_of(seen).proc.pid(), members(false), link,
                                seen.flags & O_ACCMODE);
}

Result<std::vector<resources::WatchedPath>> SavingContext::watched(const Seen &seen)
{
    return look_.holder_of(seen).session.descriptors().watched();
}

Result<std::string> SavingContext::messages(const Seen &queue)
{
    return look_.holder_of(queue).session.descriptors().queue(queue.fd);
}

Result<resources::TerminalContents> SavingContext::terminal(const Seen &master)
{
    return look_.holder_of(master).session.descriptors().terminal(master.fd);
}

} // namespace cryo::capture
