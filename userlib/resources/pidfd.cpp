// SPDX-License-Identifier: Apache-2.0
// pidfd_open(2): a process, saved with the others or ended. Those of ended processes are made by
// cr_restart: those of the same process together, for their inode numbers tell since Linux 6.9. For
// a pidfd of a member only the number is taken, by a placeholder that must never
// reach the program: the nursery replaces it, once the processes are there.
#include "resources/differences.hpp"
#include "resources/every_kind.hpp"

#include "look/proc.hpp"
#include "resources/reopening.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/sched.h>
#include <map>
#include <sched.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace cryo::resources {

namespace {

// The process of a pidfd, by its inode. Before Linux 6.9 all pidfds have the same one.
uint64_t process_of(const Seen &seen)
{
    constexpr long pid_file_system = 0x50494446; // PID_FS_MAGIC
    struct statfs system;
    return seen.shared && fstatfs(seen.shared.get(), &system) == 0 &&
                   system.f_type == pid_file_system
               ? seen.status.st_ino
               : 0;
}

// fdinfo tells the id in our pid namespace: 0 for a process outside it, -1 for one that has ended
// and was waited for.
Result<void> save(Saving &saving, const Seen &seen)
{
    std::string_view text = capture::field(seen.info, "Pid");
    image::Pidfd record;
    record.open_file = seen.open_file;
    if (!text.starts_with('-')) {
        const auto pid = static_cast<pid_t>(capture::take_number(text));
        if (!saving.members(true).contains(pid)) {
            saving.refuse(seen,
                          fmt::format("a pidfd of process {}, which is not saved with it", pid),
                          "close it before the checkpoint");
            return {};
        }
        record.pid = static_cast<uint32_t>(pid);
    } else {
        record.ended = process_of(seen);
    }
    saving.records().add(record);
    return {};
}

constexpr int by_pidfd = 3; // P_PIDFD, which glibc has since 2.36

// As many pidfds of one process that has ended and was waited for: of a child that does nothing
// else.
Result<std::vector<Fd>> of_ended(size_t count)
{
    int pidfd = -1;
    clone_args args = {};
    args.flags = CLONE_PIDFD;
    args.pidfd = reinterpret_cast<uint64_t>(&pidfd);
    long child = sys::call(SYS_clone3, &args, sizeof(args));
    if (child == -ENOSYS) // denied by a container's filter, which allows clone()
        child = sys::call(SYS_clone, CLONE_PIDFD, 0, &pidfd, 0, 0);
    if (child == 0)
        sys::call(SYS_exit_group, 0);
    if (sys::failed(child))
        return Error::from_errno("making a process for a pidfd", static_cast<int>(-child));
    std::vector<Fd> made;
    made.emplace_back(pidfd);
    int why = 0;
    while (made.size() < count && why == 0) { // a process that was waited for gets no further ones
        made.emplace_back(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
        why = made.back() ? 0 : errno;
    }
    long waited;
    do
        waited = sys::call(SYS_waitid, by_pidfd, pidfd, nullptr, WEXITED | __WALL, nullptr);
    while (waited == -EINTR);
    if (sys::failed(waited))
        return Error::from_errno("waiting for a process for a pidfd", static_cast<int>(-waited));
    if (why != 0)
        return Error::from_errno("making a further pidfd of a process", why);
    return made;
}

using Ended = std::map<uint64_t, std::vector<Fd>>; // not taken yet

// The first of a process makes those of all that are to be opened.
Result<Fd> next_of_ended(const Opening &opening, const image::Pidfd &saved, Ended &ended)
{
    std::vector<Fd> alone;
    std::vector<Fd> &made = saved.ended == 0 ? alone : ended[saved.ended];
    if (made.empty()) {
        size_t count = 1;
        if (saved.ended != 0) {
            const auto &all = opening.of<image::Pidfd>();
            count = static_cast<size_t>(std::ranges::count_if(all, [&](const auto &entry) {
                return entry.second.pid == 0 && entry.second.ended == saved.ended;
            }));
        }
        Result<std::vector<Fd>> more = of_ended(count);
        if (!more)
            return more.error();
        made = std::move(*more);
    }
    Fd one = std::move(made.back());
    made.pop_back();
    return one;
}

Result<void> open(Opening &opening)
{
    Ended ended;
    for (const auto &[id, saved] : opening.of<image::Pidfd>()) {
        if (opening.is_opened(id))
            continue;
        const Result<const image::OpenFile *> open_file = opening.named(id, "a pidfd");
        if (!open_file)
            return open_file.error();
        Result<Fd> made = saved.pid == 0 ? next_of_ended(opening, saved, ended)
                                         : Result<Fd>(Fd(::open("/", O_PATH | O_CLOEXEC)));
        if (!made)
            return made.error();
        if (!*made)
            return Error::from_errno("keeping a pidfd's number", errno);
        if (saved.pid == 0) {
            if (Result<void> set = set_flags(made->get(), (*open_file)->flags, "a pidfd"); !set)
                return set;
        }
        if (Result<void> kept = opening.keep(std::move(*made), id); !kept)
            return kept;
    }
    return {};
}

// The last number is the id in the namespace of its own that a rehearsal has.
Result<void> compare(const Restored &restored)
{
    const auto &saved = restored.saved.of<image::Pidfd>();
    const auto one = saved.find(restored.open_file.id);
    if (one == saved.end())
        return {};
    std::string_view ids = capture::field(restored.info, "NSpid");
    ids.remove_prefix(ids.find_last_of(" \t") + 1);
    const uint64_t pid = capture::take_number(ids); // 0 of "-1"
    if (pid == one->second.pid)
        return {};
    return difference(fmt::format("{} is a pidfd of process {}, and of {} in the image (0: one "
                                  "that has ended)",
                                  restored.what, pid, one->second.pid));
}

} // namespace

const Kind pidfd_kind = {
    .link = "anon_inode:[pidfd]",
    .has_own_file = true,
    .only_of_processes = "a pidfd,",
    .save = save,
    .open = open,
    .compare = compare,
};

} // namespace cryo::resources
