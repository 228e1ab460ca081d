// SPDX-License-Identifier: Apache-2.0
// Files that have a name, and those whose contents are in the image.
#include "base/lent_mode.hpp"
#include "base/open_found.hpp"
#include "look/jvm_counters.hpp"
#include "resources/about_process.hpp"
#include "resources/contents.hpp"
#include "resources/kinds.hpp"
#include "resources/memfd.hpp"
#include "restore/beside.hpp"
#include "restore/common_memory.hpp"
#include "restore/open_parts.hpp"
#include "restore/trusted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <optional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

using image::FileKind;

namespace {

// The standard stream whose redirection stands in for this open file; −1: none.
int stream_of(const Planning &p, uint32_t open_file)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (open_file_at(p, fd) == open_file)
            return fd;
    }
    return -1;
}

// What to do about a file that cannot be opened, and for which this stream's redirection stands in.
std::string way_out(std::string_view path, int error, int stream)
{
    constexpr const char *streams[] = {"--stdin", "--stdout", "--stderr"};
    constexpr std::string_view processes = "/proc/";
    if (path.starts_with(processes) && path.size() > processes.size() &&
        path[processes.size()] >= '0' && path[processes.size()] <= '9')
        return "it is about a process that is not here; close such files before the checkpoint";
    if (error != EACCES)
        return "put it back, or use --relocate";
    return stream >= 0 ? fmt::format("give another file with {} FILE, give this one a mode that "
                                     "allows it, or restart as root",
                                     streams[stream])
                       : "give it a mode that allows it, or restart as root";
}

// How this kind is opened by its name; of one that is not, there are still references (O_PATH).
const resources::ByName &by_name(const image::File &file)
{
    static constexpr resources::ByName as_any = {};
    const resources::Kind &kind = resources::kind(file.kind);
    return kind.by_name != nullptr ? *kind.by_name : as_any;
}

// The file at the saved path, found but not opened yet: so no other
// kind of file is opened in its place, and a FIFO does not block.
Result<Found> find(const Planning &p, const image::File &file, const image::OpenFile &open_file)
{
    const bool path_only = (open_file.flags & O_PATH) != 0;
    Result<Found> found = find_trusted(
        p.options, file, path_only && file.kind == FileKind::symlink ? AtEnd::link : AtEnd::target);
    if (!found) {
        const int why = found.error().code();
        return why == EPERM
                   ? found.error()
                   : Error(why, fmt::format("file {}: {}; {}", file.path, strerror(why),
                                            way_out(file.path, why, stream_of(p, open_file.id))));
    }
    const struct stat &now = found->status;
    if (path_only && ((now.st_mode ^ file.mode) & S_IFMT) != 0)
        return Error(EINVAL,
                     fmt::format("{} is no longer a {}", file.path, image::name_of(file.kind)));
    if (const auto check = by_name(file).check; !path_only && check != nullptr) {
        if (Result<void> good = check(file, now); !good)
            return good.error();
    }
    return found;
}

Result<Fd> memory_file(Planning &p, const image::File &file)
{
    return file.huge_page_size != 0 ? huge_memory_file(p, file, resources::memory_file_flags(file))
                                    : resources::make_memory_file(file);
}

Result<Fd> in_memory(const image::File &file)
{
    if (file.huge_page_size != 0)
        return Error(ENOTSUP, fmt::format("{} consists of huge pages, and a rehearsal has none for "
                                          "a copy of it; do without --rehearse",
                                          file.path));
    Fd made(memfd_create("rehearsal", MFD_CLOEXEC));
    if (!made)
        return Error::from_errno(fmt::format("making a copy of {}", file.path), errno);
    return made;
}

Result<void> fill(Planning &p, const image::File &file, int fd)
{
    return has_huge_pages(fd) ? fill_huge(p, file, fd) : resources::fill(p.image, file, fd);
}

// Restores owner, mode, times and seals; the contents may not be writable afterwards.
Result<void> finish(const image::File &file, int fd)
{
    struct stat now;
    if (fstat(fd, &now) != 0)
        return Error::from_errno(fmt::format("looking at {}", file.path), errno);
    if (now.st_uid != file.uid || now.st_gid != file.gid) {
        // Only root may, and in a user namespace only for mapped users. The
        // program does not depend on it, because its descriptors are open already.
        if (fchown(fd, file.uid, file.gid) != 0 && errno != EPERM && errno != EINVAL)
            return Error::from_errno(fmt::format("giving {} its owner", file.path), errno);
    }
    // A seal from the beginning may forbid setting even the present mode.
    if (((now.st_mode ^ file.mode) & 07777) != 0 && fchmod(fd, file.mode & 07777) != 0)
        return Error::from_errno(fmt::format("giving {} its mode", file.path), errno);
    constexpr int64_t second = 1'000'000'000;
    const timespec times[2] = {{0, UTIME_OMIT}, {file.modified / second, file.modified % second}};
    futimens(fd, times); // fails for others' files, which are left as they are
    if (file.kind != FileKind::memfd || resources::is_sealed_late(file))
        return {};
    return resources::seal_memory_file(fd, file.seals, file.link);
}

Result<void> open_all(Planning &p, const image::File &file, int fd)
{
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (open_file.file != file.id || is_opened(p, id))
            continue;
        // Another rank may have given it its mode already.
        const uint32_t flags = open_file.flags;
        Result<Fd> again = open_lent(fd, static_cast<int>(flags),
                                     [&] { return open_again(fd, flags, file.path); });
        if (!again)
            return again.error();
        if ((open_file.flags & O_PATH) == 0)
            lseek(again->get(), static_cast<off_t>(open_file.position), SEEK_SET);
        if (Result<int> kept = keep_open(p, std::move(*again), id); !kept)
            return kept.error();
    }
    return {};
}

// Of a file without a name: all that had it open get it by the descriptor with which it was made.
Result<void> keep_made(Planning &p, const image::File &file, Fd made, uint32_t first)
{
    Result<int> kept = keep_open(p, std::move(made), first);
    if (!kept)
        return kept.error();
    p.file_fds[file.id] = *kept;
    if (Result<void> all = open_all(p, file, *kept); !all)
        return all;
    return finish(file, *kept);
}

// The open file that memfd_create(2) returned, or one like it; 0: none is left. Unlike
// one that is opened later, it does not count as open for writing in execve (ETXTBSY).
uint32_t maker_of(const Planning &p, const image::File &file)
{
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (open_file.file == file.id && (open_file.flags & (O_ACCMODE | O_PATH)) == O_RDWR)
            return id;
    }
    return 0;
}

Result<void> open_nameless(Planning &p, const image::File &file)
{
    Result<Fd> made = file.kind == FileKind::memfd ? memory_file(p, file)
                      : p.options.rehearse         ? in_memory(file)
                                                   : nameless_file(p, file);
    if (!made)
        return made.error();
    if (Result<void> filled = fill(p, file, made->get()); !filled)
        return filled;
    const uint32_t first = file.kind == FileKind::memfd ? maker_of(p, file) : 0;
    if (first != 0) {
        const image::OpenFile &open_file = p.saved.open_files().at(first);
        if (Result<void> set = set_flags(made->get(), open_file.flags, file.path); !set)
            return set;
        lseek(made->get(), static_cast<off_t>(open_file.position), SEEK_SET);
    }
    return keep_made(p, file, std::move(*made), first);
}

Result<void> open_removed_directory(Planning &p, const image::File &file)
{
    Result<Fd> made = removed_directory(p, file);
    if (!made)
        return made.error();
    return keep_made(p, file, std::move(*made), 0);
}

// Whether the file that is there has exactly the saved contents.
Result<bool> is_as_saved(Planning &p, const image::File &file)
{
    const Result<std::optional<Fd>> there = open_in_place(file);
    if (!there)
        return there.error();
    return *there ? resources::has_contents(p.image, file, (*there)->get()) : false;
}

// Whether the same file is there and writable: a program may know it by its inode, as SQLite
// does. Not for named memory (/dev/shm, hugetlbfs), whose other users keep the old file, nor for
// the counters of a JVM, which may still run.
bool is_still_there(const Planning &p, const image::File &file, int made)
{
    constexpr uint64_t most = 1 << 30;
    const bool little_room =
        std::ranges::any_of(p.saved.of<image::Rlimit>(), [](const image::Rlimit &limit) {
            return limit.resource == RLIMIT_AS && limit.soft != RLIM_INFINITY;
        });
    if (file.size > most || little_room || p.saved.memory.mlockall != 0)
        return false; // it could not be mapped temporarily
    struct stat now;
    const std::string path(file.path);
    return !has_huge_pages(made) && path.rfind("/dev/shm/", 0) != 0 &&
           !capture::is_jvm_counters(path) && lstat(path.c_str(), &now) == 0 &&
           S_ISREG(now.st_mode) && now.st_ino == file.inode && now.st_dev == file.device &&
           access(path.c_str(), R_OK | W_OK) == 0;
}

// What is in its place at the end is the file that was made.
Result<void> keep_replacement(Planning &p, const image::File &file, int made)
{
    Result<void> done = open_all(p, file, made);
    if (done)
        done = finish(file, made);
    if (!done)
        return done;
    Result<int> kept = keep_open(p, Fd(fcntl(made, F_DUPFD_CLOEXEC, 3)), 0);
    if (!kept)
        return kept.error();
    p.file_fds[file.id] = *kept;
    return {};
}

Result<void> open_common(Planning &p, const image::File &file, const std::string &beside)
{
    const Result<std::optional<CommonMemory>> found =
        CommonMemory::open(beside, [&] { return is_as_saved(p, file); });
    if (!found)
        return found.error();
    if (!*found)
        return {}; // it is opened by its name
    const CommonMemory &memory = **found;
    const int made = memory.fd.get();
    p.plan.replacements.add(
        {memory.path, std::string(file.path), false, file.size, file.modified, 0, {}});
    const Result<bool> is_written = resources::has_contents(p.image, file, made);
    if (!is_written)
        return is_written.error();
    if (!*is_written) {
        if (ftruncate(made, 0) != 0)
            return Error::from_errno(memory.path, errno);
        if (Result<void> filled = fill(p, file, made); !filled)
            return filled;
    }
    return keep_replacement(p, file, made);
}

// A named file whose contents were saved (--save-files) and have changed since: the
// saved ones are written beside it, and renamed, or copied to its place, by the restored
// process at the very end; so a restart that fails leaves everything as it was.
Result<void> open_replacement(Planning &p, const image::File &file)
{
    if (const std::optional<std::string> common = beside_for_ranks(file))
        return open_common(p, file, *common);
    const Result<Beside> beside = make_beside(p, file);
    if (!beside && capture::is_jvm_counters(file.path)) {
        // Any user may have made something there, and a JVM needs its counters, not their name.
        notice_once(
            p, fmt::format(
                   "{}; the counters of a JVM have no name now, and jps does not show that JVM",
                   beside.error().text()));
        return open_nameless(p, file);
    }
    if (!beside)
        return beside.error();
    const Fd &made = beside->fd;
    const bool in_place = is_still_there(p, file, made.get());
    p.plan.replacements.add({beside->path, std::string(file.path), in_place, file.size,
                             file.modified, 0, hold_file(made.get())});
    Result<void> done = fill(p, file, made.get());
    if (in_place || !done)
        return done; // in its place it is opened by its name
    return keep_replacement(p, file, made.get());
}

// What follows in a path that begins with this directory; none: it does not.
std::optional<std::string_view> below(std::string_view path, const std::string &directory)
{
    if (!path.starts_with(directory))
        return {};
    path.remove_prefix(directory.size());
    return path.empty() || path.front() == '/' ? std::optional(path) : std::nullopt;
}

// What follows the process itself in a path of /proc: such a file is opened in the fresh process.
std::optional<std::string_view> about_itself(const Planning &p, std::string_view path)
{
    return below(path, fmt::format("/proc/{}", p.saved.process.pid));
}

// The process and its main thread may have another id than before. These two names are links, which
// O_NOFOLLOW would not follow.
std::string path_within(const Planning &p, std::string_view rest)
{
    const auto of_thread = below(rest, fmt::format("/task/{}", p.saved.process.pid));
    const std::string_view end = of_thread.value_or(rest);
    return fmt::format("/proc/{}{}", of_thread ? "thread-self" : "self", end.empty() ? "/." : end);
}

// Whether the first process has it: what it opens itself, no other one has.
bool is_of_first(const Planning &p, uint32_t open_file)
{
    const auto first = p.saved.members.find(p.saved.process.pid);
    return first != p.saved.members.end() &&
           std::ranges::find(first->second->descriptors(), open_file,
                             &image::Descriptor::open_file) != first->second->descriptors().end();
}

// Takes the number of a file that the nursery opens, once the member is there that it is about.
Result<void> keep_number(Planning &p, uint32_t open_file)
{
    Fd placeholder(open("/", O_PATH | O_CLOEXEC));
    if (!placeholder)
        return Error::from_errno("keeping the number of a file of /proc", errno);
    Result<int> kept = keep_open(p, std::move(placeholder), open_file);
    return kept ? Result<void>() : Result<void>(kept.error());
}

void open_within(Planning &p, const std::string &path, const image::OpenFile &open_file)
{
    Program &program = p.plan.program;
    const std::string what = fmt::format("opening {}", path);
    const uint16_t low = program.slot();
    const uint16_t high = program.slot();
    program.call(what, SYS_openat,
                 {value(AT_FDCWD), program.text(path),
                  value((open_file.flags & ~creation_flags) | O_CLOEXEC)},
                 low);
    program.call(what, SYS_fcntl, {result(low), value(F_DUPFD_CLOEXEC), value(p.plan.floor)}, high);
    program.call(what, SYS_close, {result(low)});
    program.call(what, SYS_lseek, {result(high), value(open_file.position), value(SEEK_SET)})
        .expect = Expect::anything;
    p.open_slots[open_file.id] = high;
}

Result<Fd> open_as_saved(const Planning &p, const Found &found, const image::File &file,
                         const image::OpenFile &open_file)
{
    const auto flags = static_cast<int>((open_file.flags & ~creation_flags) | by_name(file).flags);
    Result<Fd> fd =
        open_lent(found, flags, [&] { return open_found(found, flags, by_name(file).devices); });
    if (fd)
        return fd;
    const int why = fd.error().code();
    return Error(why, fmt::format("opening {}: {}; {}", file.path, strerror(why),
                                  way_out(file.path, why, stream_of(p, open_file.id))));
}

} // namespace

bool is_about_member(const Planning &p, uint32_t open_file)
{
    const auto &file = p.saved.files().at(p.saved.open_files().at(open_file).file);
    const std::optional<resources::AboutProcess> about = resources::about_process(file.path);
    return about && p.saved.members.contains(about->pid);
}

Result<void> open_contents(Planning &p)
{
    for (const auto &[id, file] : p.saved.files()) {
        if (file.kind == FileKind::directory && (file.flags & image::kFileUnlinked) != 0) {
            if (Result<void> done = open_removed_directory(p, file); !done)
                return done;
        }
        if ((file.flags & image::kFileContentsSaved) == 0)
            continue;
        // A rehearsal has a copy of its own, because the file may be written to.
        const bool nowhere = (file.flags & image::kFileUnlinked) != 0 ||
                             file.kind == FileKind::memfd || p.options.rehearse;
        // A JVM that still runs keeps its counters, even if they have not changed.
        if (!nowhere && !capture::is_jvm_counters(file.path)) {
            Result<bool> same = is_as_saved(p, file);
            if (!same)
                return same.error();
            if (*same)
                continue; // it is opened by its name
        }
        if (Result<void> done = nowhere ? open_nameless(p, file) : open_replacement(p, file); !done)
            return done;
    }
    return {};
}

Result<void> open_by_name(Planning &p, const image::File &file, const image::OpenFile &open_file)
{
    const bool path_only = (open_file.flags & O_PATH) != 0;
    if (!path_only && file.kind == FileKind::terminal) {
        Result<int> kept = open_standard(p, standard_for(p, open_file), open_file.id);
        if (!kept)
            return kept.error();
        return {};
    }
    if (!path_only && resources::kind(file.kind).by_name == nullptr)
        return Error(ENOTSUP, fmt::format("{}: a {} cannot be restored yet", file.path,
                                          image::name_of(file.kind)));
    const auto rest = about_itself(p, file.path);
    if (rest && is_of_first(p, open_file.id)) {
        open_within(p, path_within(p, *rest), open_file);
        return {};
    }
    if (is_about_member(p, open_file.id))
        return keep_number(p, open_file.id);
    Result<Found> found = find(p, file, open_file);
    if (!found)
        return found.error();
    Result<Fd> fd = path_only && (open_file.flags & O_NOFOLLOW) != 0
                        ? std::move(found->fd)
                        : open_as_saved(p, *found, file, open_file);
    if (!fd)
        return fd.error();
    if (const auto go_to = by_name(file).go_to; !path_only && go_to != nullptr) {
        if (Result<void> there = go_to(fd->get(), file, open_file.position); !there)
            return there;
    }
    Result<int> kept = keep_open(p, std::move(*fd), open_file.id);
    if (!kept)
        return kept.error();
    return {};
}

} // namespace cryo::restore
