// SPDX-License-Identifier: Apache-2.0
// The receiver of an open file's signals: F_SETOWN, F_SETSIG, O_ASYNC.
#include "capture/files.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::capture {

Result<void> Files::read_owner(const Seen &seen)
{
    f_owner_ex owner = {};
    image::OpenFile &record = record_of(seen);
    const int signal = fcntl(seen.shared.get(), F_GETSIG);
    if (signal < 0 || fcntl(seen.shared.get(), F_GETOWN_EX, &owner) != 0)
        return Error::from_errno(fmt::format("asking for the owner of descriptor {}", seen.fd),
                                 errno);
    record.owner_signal = static_cast<uint32_t>(signal);
    if (owner.pid == 0)
        return {};
    record.owner = owner.pid;
    record.owner_type = static_cast<uint32_t>(owner.type);
    const bool member = std::any_of(holders_.begin(), holders_.end(), [&](const Holder &holder) {
        const std::string thread = "task/" + std::to_string(owner.pid);
        return owner.type == F_OWNER_PID   ? owner.pid == holder.proc.pid()
               : owner.type == F_OWNER_TID ? access(holder.proc.path(thread).c_str(), F_OK) == 0
                                           : owner.pid == getpgid(holder.proc.pid());
    });
    if (!member && (seen.flags & O_ASYNC) != 0)
        refuse(seen,
               fmt::format("sends its signals to another process, {} {}", owner.pid, seen.link),
               "switch O_ASYNC off before the checkpoint");
    return {};
}

} // namespace cryo::capture
