// SPDX-License-Identifier: Apache-2.0
#include "resources/cuts.hpp"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

using restore::Operand;
using restore::value;

namespace {

bool is_cut(const image::File &file, const image::OpenFile &open_file)
{
    return file.kind == image::FileKind::regular && (file.flags & image::kFileContentsSaved) == 0 &&
           (open_file.flags & O_PATH) == 0 && (open_file.flags & O_ACCMODE) != O_RDONLY;
}

} // namespace

int own_output(const std::string &path)
{
    struct stat there;
    struct stat own;
    if (stat(path.c_str(), &there) != 0 || !S_ISREG(there.st_mode))
        return -1;
    for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
        if (fstat(fd, &own) == 0 && own.st_dev == there.st_dev && own.st_ino == there.st_ino)
            return fd;
    }
    return -1;
}

Cuts::Cuts(Opening &opening, const std::vector<image::Lock> &locks,
           const std::set<uint32_t> &only_passed)
    : opening_(opening), locks_(locks)
{
    const auto &files = opening.of<image::File>();
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        if (is_cut(files.at(open_file.file), open_file) && opening.descriptor(id) >= 0 &&
            !opening.is_redirected(id))
            by_itself_.emplace(open_file.file, id);
    }
    for (const uint32_t id : only_passed) {
        const image::OpenFile &open_file = opening.of<image::OpenFile>().at(id);
        if (!is_cut(files.at(open_file.file), open_file) || by_itself_.contains(open_file.file) ||
            !opening.is_opened(id))
            continue;
        const Operand inherited = opening.opened(id);
        if (inherited.kind == restore::Arg::value)
            for_messages_.emplace(open_file.file, static_cast<int>(inherited.number));
    }
}

std::set<int> Cuts::spared() const
{
    std::set<int> spared;
    for (const auto &[file, fd] : for_messages_) {
        if (locked_by(file) < 0)
            spared.insert(fd);
    }
    return spared;
}

// A descriptor that the process reads a locked file by; −1: it has none. Closing another one of
// this file would give up the lock.
int Cuts::locked_by(uint32_t file) const
{
    const auto holds = [&](const image::Lock &lock) {
        return lock.file == file && lock.kind == image::LockKind::posix;
    };
    if (std::ranges::none_of(locks_, holds))
        return -1;
    for (const auto &[id, open_file] : opening_.of<image::OpenFile>()) {
        if (open_file.file == file && (open_file.flags & O_PATH) == 0 &&
            opening_.descriptor(id) >= 0 && !opening_.is_redirected(id))
            return opening_.descriptor(id);
    }
    return -1;
}

// Truncating changes the time of the file, even if its size stays the same.
void Cuts::keep_time(const image::File &file, int fd) const
{
    struct stat now;
    if (stat(std::string(file.path).c_str(), &now) != 0 ||
        static_cast<uint64_t>(now.st_size) != file.size)
        return;
    const timespec times[2] = {{0, UTIME_OMIT}, now.st_mtim};
    restore::Program &program = opening_.program();
    program.try_call(fmt::format("keeping the time of {}", file.path), SYS_utimensat,
                     {value(fd), value(0), program.data(times, sizeof(times)), value(0)});
}

// The caller of this command, such as a batch script, may have written there since the checkpoint;
// or another file has come to its place, as when a log is rotated.
void Cuts::tell(const image::File &file) const
{
    struct stat now;
    const std::string path(file.path);
    if (stat(path.c_str(), &now) != 0 || static_cast<uint64_t>(now.st_size) <= file.size)
        return;
    if (own_output(path) < 0) {
        if (now.st_ino != file.inode)
            opening_.notice(fmt::format("{} is another file than the one that was open, and is cut "
                                        "back all the same to what that one held, by {} bytes",
                                        path, static_cast<uint64_t>(now.st_size) - file.size));
        return;
    }
    opening_.notice(fmt::format("{} is cut back to what it held at the checkpoint, by {} bytes, "
                                "although the output of cr_restart goes there, too (--keep-output "
                                "cuts nothing off)",
                                path, static_cast<uint64_t>(now.st_size) - file.size));
}

void Cuts::plan() const
{
    restore::Program &program = opening_.program();
    const auto &files = opening_.of<image::File>();
    const auto what = [&](uint32_t file) {
        return fmt::format("cutting {} back to its size", files.at(file).path);
    };
    for (const auto &[id, open_file] : by_itself_) {
        const image::File &file = files.at(id);
        const int fd = opening_.descriptor(open_file);
        tell(file);
        program.call(what(id), SYS_ftruncate, {value(fd), value(file.size)});
        keep_time(file, fd);
    }
    for (const auto &[id, fd] : for_messages_) {
        const Operand size = value(files.at(id).size);
        if (const int other = locked_by(id); other >= 0) {
            const Operand path = program.text(fmt::format("/proc/self/fd/{}", other));
            program.call(what(id), SYS_truncate, {path, size});
            continue;
        }
        program.call(what(id), SYS_ftruncate, {value(fd), size});
        program.call("closing", SYS_close, {value(fd)});
    }
}

} // namespace cryo::resources
