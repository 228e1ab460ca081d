// SPDX-License-Identifier: Apache-2.0
// Locks are taken again by the process that held them, before anything outside it is changed.
#include "restore/open_parts.hpp"

#include <cstring>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/syscall.h>

namespace cryo::restore {

namespace {

// A descriptor of the locked file, open with the access that the lock needs; −1: none.
int descriptor_for(const Planning &p, const image::Lock &lock)
{
    if (lock.open_file != 0)
        return p.redirected.count(lock.open_file) != 0 ? -1 : descriptor_of(p, lock.open_file);
    for (const auto &[id, open_file] : p.saved.open_files()) {
        const uint32_t access = open_file.flags & O_ACCMODE;
        if (open_file.file == lock.file && (open_file.flags & O_PATH) == 0 &&
            access != static_cast<uint32_t>(lock.how == F_WRLCK ? O_RDONLY : O_WRONLY) &&
            p.redirected.count(id) == 0 && descriptor_of(p, id) >= 0)
            return descriptor_of(p, id);
    }
    return -1;
}

} // namespace

void plan_locks(Planning &p)
{
    Program &program = p.plan.program;
    if (p.options.rehearse)
        return; // the program may hold them, and no other process must find them taken
    for (const image::Lock &lock : p.saved.of<image::Lock>()) {
        const int fd = descriptor_for(p, lock);
        if (fd < 0)
            continue; // the user has redirected it
        const std::string_view path = p.saved.files().at(lock.file).path;
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

} // namespace cryo::restore
