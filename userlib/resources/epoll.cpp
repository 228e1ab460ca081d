// SPDX-License-Identifier: Apache-2.0
// epoll_create(2): a set of open files, each watched under the number that it had when it was
// added.
#include "resources/every_kind.hpp"

#include "look/proc.hpp"
#include "look/same_open_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <map>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

using restore::value;

namespace {

// Where kcmp(2) may not be called. `inode`: as fdinfo tells it; few open files have it.
Result<bool> is_found_watched(const Seen &set, uint64_t inode, int number, const Seen &other)
{
    if (other.status.st_ino != inode || !set.shared || !other.shared)
        return false;
    return capture::is_watched(set.shared.get(), number, other.shared.get());
}

// The open file that a set watches; null: no process has it open any more.
Result<const Seen *> watched(const Saving &saving, const Seen &set, const kcmp_epoll_slot &slot,
                             uint64_t inode)
{
    const auto is = [&](const Seen &other) -> Result<bool> {
        const long order = syscall(SYS_kcmp, saving.process(other), saving.process(set),
                                   KCMP_EPOLL_TFD, other.fd, &slot);
        if (order < 0 && capture::is_forbidden(errno))
            return is_found_watched(set, inode, static_cast<int>(slot.tfd), other);
        return order == 0;
    };
    const Seen *likely = saving.at(set, static_cast<int>(slot.tfd));
    if (likely != nullptr) {
        const Result<bool> found = is(*likely);
        if (!found || *found)
            return found ? Result<const Seen *>(likely) : found.error();
    }
    for (const Seen &other : saving.seen()) {
        const Result<bool> found = is(other);
        if (!found || *found)
            return found ? Result<const Seen *>(&other) : found.error();
    }
    return nullptr;
}

// "tfd: 5 events: 19 data: feedface  pos:0 ino:… sdev:…": tfd is the number at registration; the
// open file may have another descriptor by now, or none.
Result<void> save(Saving &saving, const Seen &seen)
{
    std::map<int, uint32_t> offsets; // distinguishes open files with the same number
    std::string_view rest = seen.info;
    while (!rest.empty()) {
        std::string_view line = capture::take_line(rest);
        if (capture::take_word(line) != "tfd:")
            continue;
        image::EpollItem item;
        item.epoll = seen.open_file;
        item.fd = static_cast<uint32_t>(capture::take_number(line));
        capture::take_word(line); // "events:"
        item.events = static_cast<uint32_t>(capture::take_number(line, 16));
        capture::take_word(line); // "data:"
        item.data = capture::take_number(line, 16);
        capture::take_word(line); // "pos:0"
        std::string_view inode = capture::take_word(line);
        inode.remove_prefix(std::min(inode.size(), strlen("ino:")));
        const kcmp_epoll_slot slot = {static_cast<uint32_t>(seen.fd), item.fd,
                                      offsets[static_cast<int>(item.fd)]++};
        const Result<const Seen *> found =
            watched(saving, seen, slot, capture::take_number(inode, 16));
        if (!found)
            return found.error();
        const Seen *target = *found;
        if (target == nullptr) {
            saving.refuse(
                seen,
                fmt::format("an epoll set that watches what was descriptor {} and is closed now",
                            item.fd),
                "remove it from the set before it is closed");
            continue;
        }
        item.open_file = target->open_file;
        if (item.open_file != 0) // otherwise it is refused itself
            saving.records().add(item);
    }
    return {};
}

Result<void> open(Opening &opening)
{
    for (const image::OpenFile *open_file : opening.of_kind(image::FileKind::epoll)) {
        if (opening.is_opened(open_file->id))
            continue;
        Fd made(epoll_create1(EPOLL_CLOEXEC));
        if (!made)
            return Error::from_errno("making an epoll set", errno);
        if (Result<void> kept = opening.keep(std::move(made), open_file->id); !kept)
            return kept;
    }
    return {};
}

// Each holder of a pidfd opens it by itself, so that no other could register it. All else is the
// first process's work.
bool is_its_work(const Opening &opening, const image::EpollItem &item)
{
    return opening.of<image::Pidfd>().contains(item.open_file) ? opening.cares_for(item.open_file)
                                                               : opening.is_first();
}

// epoll remembers the descriptor number of a registration, and the open file behind it. So each
// file gets that number temporarily, before the program's descriptors get their numbers.
Result<void> place(Opening &opening)
{
    restore::Program &program = opening.program();
    for (const image::EpollItem &item : opening.of<image::EpollItem>()) {
        if (!is_its_work(opening, item) || opening.is_redirected(item.open_file) ||
            opening.is_redirected(item.epoll))
            continue;
        if (!opening.is_opened(item.epoll) || !opening.is_opened(item.open_file))
            return Error(EINVAL, "an epoll set refers to no open file");
        const std::string what = fmt::format("registering descriptor {} in an epoll set", item.fd);
        epoll_event event = {};
        event.events = item.events;
        event.data.u64 = item.data;
        program.call(what, SYS_dup3,
                     {opening.opened(item.open_file), value(item.fd), value(O_CLOEXEC)});
        program.call(what, SYS_epoll_ctl,
                     {opening.opened(item.epoll), value(EPOLL_CTL_ADD), value(item.fd),
                      program.data(&event, sizeof(event))});
        program.call(what, SYS_close, {value(item.fd)});
    }
    return {};
}

} // namespace

const Kind epoll_kind = {
    .link = "anon_inode:[eventpoll]",
    .has_own_file = true,
    .save = save,
    .open = open,
    .place = place,
};

} // namespace cryo::resources
