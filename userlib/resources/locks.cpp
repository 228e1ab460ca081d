// SPDX-License-Identifier: Apache-2.0
// Locks, as listed in /proc/PID/fdinfo: a process's own POSIX locks with every descriptor of the
// file, other locks with the open file that holds them. They are taken again by the process that
// held them, before anything outside it is changed.
#include "resources/locks.hpp"

#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>

namespace cryo::resources {

using restore::value;

namespace {

// How a lease that is being broken is to end.
constexpr uint32_t for_reading = 1, given_up = 2; // image::Lock::broken

// "lock: 1: POSIX  ADVISORY  WRITE 412 08:01:1234 0 EOF", of a lease "1: LEASE  ACTIVE  READ 412
// 08:01:1234 0 EOF" or "1: LEASE  BREAKING  UNLCK 412 08:01:1234 0 EOF"
bool parse_lock(std::string_view line, image::Lock &lock)
{
    capture::take_word(line); // its number
    const std::string_view kind = capture::take_word(line);
    const std::string_view state = capture::take_word(line);
    const std::string_view how = capture::take_word(line);
    capture::take_word(line); // pid
    capture::take_word(line); // device and inode
    lock.start = capture::take_number(line);
    if (kind == "POSIX")
        lock.kind = image::LockKind::posix;
    else if (kind == "OFDLCK")
        lock.kind = image::LockKind::open_file;
    else if (kind == "FLOCK")
        lock.kind = image::LockKind::flock;
    else if (kind == "LEASE" && (state == "ACTIVE" || state == "BREAKING"))
        lock.kind = image::LockKind::lease;
    else
        return false;
    if (state == "BREAKING") {
        if (how != "READ" && how != "UNLCK")
            return false;
        lock.broken = how == "READ" ? for_reading : given_up;
        return true;
    }
    if (how != "READ" && how != "WRITE")
        return false; // awaited
    lock.how = how == "WRITE" ? F_WRLCK : F_RDLCK;
    if (line.substr(0, 3) != "EOF")
        lock.length = capture::take_number(line) - lock.start + 1;
    return true;
}

} // namespace

void save_locks(Saving &saving, const Seen &descriptor, const Seen &open_file)
{
    std::string_view rest = descriptor.info;
    if (rest.find("lock:") == std::string_view::npos)
        return;
    while (!rest.empty()) {
        std::string_view line = capture::take_line(rest);
        if (capture::take_word(line) != "lock:")
            continue;
        image::Lock lock;
        if (!parse_lock(line, lock)) {
            saving.refuse(
                descriptor,
                fmt::format("a lock that cannot be taken again, {} ({})", descriptor.link, line),
                "release it before the checkpoint", capture::Passing::when_gone);
            continue;
        }
        // The kernel does not tell whether one that is to be given up was for reading.
        if (lock.broken != 0)
            lock.how = lock.broken == given_up && (open_file.flags & O_ACCMODE) == O_RDONLY
                           ? F_RDLCK
                           : F_WRLCK;
        lock.file = saving.file(open_file).id;
        if (lock.kind == image::LockKind::posix)
            lock.pid = static_cast<uint32_t>(saving.process(descriptor));
        else
            lock.open_file = open_file.open_file;
        // Every descriptor of the process or of the open file lists it.
        const auto is_same = [&](const image::Lock &other) {
            return other.kind == lock.kind && other.file == lock.file &&
                   other.open_file == lock.open_file && other.pid == lock.pid &&
                   other.start == lock.start && other.length == lock.length;
        };
        if (std::ranges::any_of(saving.records().of<image::Lock>(), is_same))
            continue;
        // While one is being broken, the kernel grants no other one.
        const auto is_broken_too = [&](const image::Lock &other) {
            return other.broken != 0 && other.file == lock.file;
        };
        if (lock.broken != 0 &&
            std::ranges::any_of(saving.records().of<image::Lock>(), is_broken_too))
            saving.refuse(
                descriptor,
                fmt::format("one of several leases on {} that are being broken", descriptor.link),
                "give them up before the checkpoint", capture::Passing::soon);
        saving.records().add(lock);
    }
}

namespace {

// A descriptor of the locked file, open with the access that the lock needs; −1: none.
int descriptor_for(const Opening &opening, const image::Lock &lock)
{
    if (lock.open_file != 0)
        return opening.is_redirected(lock.open_file) ? -1 : opening.descriptor(lock.open_file);
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        const uint32_t access = open_file.flags & O_ACCMODE;
        if (open_file.file == lock.file && (open_file.flags & O_PATH) == 0 &&
            access != static_cast<uint32_t>(lock.how == F_WRLCK ? O_RDONLY : O_WRONLY) &&
            !opening.is_redirected(id) && opening.descriptor(id) >= 0)
            return opening.descriptor(id);
    }
    return -1;
}

// Breaks it by an open that does not wait. The program was told of that already: so its open file
// has no owner meanwhile, who would get a signal.
void break_lease(restore::Program &program, int fd, const image::Lock &lock, std::string_view path)
{
    const std::string what = fmt::format("breaking the lease on {} again", path);
    const int access = lock.broken == for_reading ? O_RDONLY : O_WRONLY;
    program.call(what, SYS_fcntl, {value(fd), value(F_SETOWN), value(0)});
    program.call_exact(what, SYS_openat, static_cast<uint64_t>(-EWOULDBLOCK),
                       {value(AT_FDCWD), program.text(fmt::format("/proc/self/fd/{}", fd)),
                        value(access | O_NONBLOCK | O_CLOEXEC)});
}

} // namespace

void take_locks(Opening &opening, const std::vector<image::Lock> &locks)
{
    restore::Program &program = opening.program();
    for (const image::Lock &lock : locks) {
        const int fd = descriptor_for(opening, lock);
        if (fd < 0)
            continue; // the user has redirected it
        const std::string_view path = opening.of<image::File>().at(lock.file).path;
        const std::string what =
            fmt::format("taking the lock on {} again: another process may hold one there "
                        "(lslocks tells)",
                        path);
        if (lock.kind == image::LockKind::flock) {
            program.call(what, SYS_flock,
                         {value(fd), value((lock.how == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB)});
            continue;
        }
        if (lock.kind == image::LockKind::lease) {
            program.call(fmt::format("taking the lease on {} again: another process may have the "
                                     "file open (fuser tells)",
                                     path),
                         SYS_fcntl, {value(fd), value(F_SETLEASE), value(lock.how)});
            if (lock.broken != 0)
                break_lease(program, fd, lock, path);
            continue;
        }
        struct flock range = {};
        range.l_type = static_cast<short>(lock.how);
        range.l_whence = SEEK_SET;
        range.l_start = static_cast<off_t>(lock.start);
        range.l_len = static_cast<off_t>(lock.length);
        program.call(what, SYS_fcntl,
                     {value(fd), value(lock.kind == image::LockKind::posix ? F_SETLK : F_OFD_SETLK),
                      program.data(&range, sizeof(range))});
    }
}

// Opening such a file would break the lease: its holder would get a signal, and lose the lease in
// the end.
Result<void> refuse_leases(const Opening &opening, const std::vector<image::Lock> &locks)
{
    for (const image::Lock &lock : locks) {
        if (lock.kind == image::LockKind::lease)
            return Error(ENOTSUP, fmt::format("the program holds a lease on {}, which a rehearsal "
                                              "would break; do without --rehearse",
                                              opening.of<image::File>().at(lock.file).path));
    }
    return {};
}

} // namespace cryo::resources
