// SPDX-License-Identifier: Apache-2.0
#include "resources/owner.hpp"

#include "look/proc.hpp"
#include "resources/descriptor_text.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

using restore::result;
using restore::value;

Result<void> save_owner(Saving &saving, const Seen &seen, image::OpenFile &record)
{
    f_owner_ex owner = {};
    const int signal = fcntl(seen.shared.get(), F_GETSIG);
    if (signal < 0 || fcntl(seen.shared.get(), F_GETOWN_EX, &owner) != 0)
        return Error::from_errno(fmt::format("asking for the owner of {}", descriptor_text(seen)),
                                 errno);
    record.owner_signal = static_cast<uint32_t>(signal);
    if (owner.pid == 0)
        return {};
    record.owner = owner.pid;
    record.owner_type = static_cast<uint32_t>(owner.type);
    const bool member = std::ranges::any_of(saving.members(false), [&](pid_t pid) {
        const std::string thread = "task/" + std::to_string(owner.pid);
        return owner.type == F_OWNER_PID ? owner.pid == pid
               : owner.type == F_OWNER_TID
                   ? access(capture::Proc(pid).path(thread).c_str(), F_OK) == 0
                   : owner.pid == getpgid(pid);
    });
    if (!member && (seen.flags & O_ASYNC) != 0)
        saving.refuse(
            seen, fmt::format("sends its signals to another process, {} {}", owner.pid, seen.link),
            "switch O_ASYNC off before the checkpoint");
    return {};
}

// If the process owned an open file, it does again, whatever its id is now.
std::vector<std::string> set_owners(Opening &opening, const OwnerIds &ids)
{
    restore::Program &program = opening.program();
    std::vector<std::string> notices;
    uint16_t self = 0;
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        const int fd = opening.descriptor(id);
        if (fd < 0 || opening.is_redirected(id) ||
            (open_file.owner == 0 && open_file.owner_signal == 0 &&
             (open_file.flags & O_ASYNC) == 0))
            continue;
        if (open_file.owner_signal != 0)
            program.call(fmt::format("setting the signal of descriptor {}", fd), SYS_fcntl,
                         {value(fd), value(F_SETSIG), value(open_file.owner_signal)});
        const std::string what = fmt::format("setting the owner of descriptor {}", fd);
        if (open_file.owner != 0 && open_file.owner_type == F_OWNER_PID &&
            static_cast<uint32_t>(open_file.owner) == ids.pid) {
            if (self == 0) {
                self = program.slot();
                program.call("asking for the process id", SYS_getpid, {}, self);
            }
            program.call(what, SYS_fcntl, {value(fd), value(F_SETOWN), result(self)});
        } else if (open_file.owner != 0 && !ids.ids_restored) {
            if (ids.done_by_owners.contains(id))
                continue; // the owner takes them by itself
            notices.push_back(fmt::format("descriptor {} sends its signals to nobody: its "
                                          "owner {} has a new id",
                                          fd, open_file.owner));
        } else if (open_file.owner != 0) {
            const f_owner_ex owner = {static_cast<__pid_type>(open_file.owner_type),
                                      open_file.owner};
            program.try_call(what, SYS_fcntl,
                             {value(fd), value(F_SETOWN_EX), program.data(&owner, sizeof(owner))});
        }
        if ((open_file.flags & O_ASYNC) != 0)
            program.call(fmt::format("switching on the signals of descriptor {}", fd), SYS_fcntl,
                         {value(fd), value(F_SETFL),
                          value(open_file.flags &
                                (O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME | O_ASYNC))});
    }
    return notices;
}

} // namespace cryo::resources
