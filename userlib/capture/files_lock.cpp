// SPDX-License-Identifier: Apache-2.0
// Locks, as listed in /proc/PID/fdinfo: a process's own POSIX locks with every descriptor of the
// file, other locks with the open file that holds them.
#include "capture/files.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

// "lock: 1: POSIX  ADVISORY  WRITE 412 08:01:1234 0 EOF", of a lease "1: LEASE  ACTIVE  READ 412
// 08:01:1234 0 EOF"
bool parse_lock(std::string_view line, image::Lock &lock)
{
    take_word(line); // its number
    const std::string_view kind = take_word(line);
    const std::string_view state = take_word(line);
    const std::string_view how = take_word(line);
    take_word(line); // pid
    take_word(line); // device and inode
    lock.start = take_number(line);
    if (kind == "POSIX")
        lock.kind = image::LockKind::posix;
    else if (kind == "OFDLCK")
        lock.kind = image::LockKind::open_file;
    else if (kind == "FLOCK")
        lock.kind = image::LockKind::flock;
    else if (kind == "LEASE" && state == "ACTIVE")
        lock.kind = image::LockKind::lease;
    else
        return false;
    if (how != "READ" && how != "WRITE")
        return false; // being broken, or awaited
    lock.how = how == "WRITE" ? F_WRLCK : F_RDLCK;
    if (line.substr(0, 3) != "EOF")
        lock.length = take_number(line) - lock.start + 1;
    return true;
}

} // namespace

// `seen`: any descriptor of the open file.
Result<void> Files::read_locks(const Seen &seen, uint32_t open_file)
{
    std::string_view rest = seen.info;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        if (take_word(line) != "lock:")
            continue;
        image::Lock lock;
        if (!parse_lock(line, lock)) {
            const bool breaks = line.find("BREAKING") != std::string_view::npos;
            refuse(seen, fmt::format("a lock that cannot be taken again, {} ({})", seen.link, line),
                   "release it before the checkpoint", breaks ? Passing::soon : Passing::when_gone);
            continue;
        }
        lock.file = open_files_[open_file - 1].file;
        if (lock.kind == image::LockKind::posix)
            lock.pid = static_cast<uint32_t>(proc_of(seen).pid());
        else
            lock.open_file = open_file;
        // Every descriptor of the process or of the open file lists it.
        const auto is_same = [&](const image::Lock &other) {
            return other.kind == lock.kind && other.file == lock.file &&
                   other.open_file == lock.open_file && other.pid == lock.pid &&
                   other.start == lock.start && other.length == lock.length;
        };
        if (std::ranges::none_of(records_.of<image::Lock>(), is_same))
            records_.add(lock);
    }
    return {};
}

} // namespace cryo::capture
