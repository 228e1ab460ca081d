// SPDX-License-Identifier: Apache-2.0
// inotify_init(2): watches of paths. The kernel lists them by inode; the agent has recorded which
// paths were watched.
#include "resources/every_kind.hpp"

#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

using image::FileKind;
using restore::value;

namespace {

// In the place of a path, before the OPEN_FILE of a watched file that has lost its name. No path
// begins so, and an earlier release finds no such file.
constexpr std::string_view of_open_file = "open file ";

// The file of a watch, as fdinfo tells it: for a subvolume or a layer of an overlay, stat(2) tells
// another device.
struct Watched {
    uint64_t inode = 0, device = 0;
    bool operator==(const Watched &) const = default;
};

// "wd:1a ino:9e7e sdev:800013 mask:800afce ignored_mask:0 …"
Watched take_watched(std::string_view &line, int32_t &watch)
{
    const auto number = [&](std::string_view key) {
        std::string_view word = capture::take_word(line);
        word.remove_prefix(std::min(key.size(), word.size()));
        return capture::take_number(word, 16);
    };
    watch = static_cast<int32_t>(number("wd:"));
    Watched file;
    file.inode = number("ino:");
    file.device = number("sdev:");
    return file;
}

// How a watch of this open file is told.
Watched as_watched(int fd)
{
    const Fd own(inotify_init1(IN_CLOEXEC));
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    if (!own || inotify_add_watch(own.get(), path.c_str(), IN_UNMOUNT) < 0)
        return {};
    const Result<std::string> info =
        capture::Proc(getpid()).read(fmt::format("fdinfo/{}", own.get()));
    std::string_view rest = info ? std::string_view(*info) : "";
    while (!rest.empty()) {
        std::string_view line = capture::take_line(rest);
        int32_t watch = 0;
        if (capture::take_word(line) == "inotify")
            return take_watched(line, watch);
    }
    return {};
}

// Of a file that has lost its name, but that the process has open.
std::string by_open_file(const Saving &saving, const Seen &watcher, const Watched &file)
{
    for (const Seen &seen : saving.seen()) {
        const bool is_file = seen.kind == FileKind::regular || seen.kind == FileKind::directory;
        if (is_file && seen.open_file != 0 && seen.passed_in < 0 && seen.holder == watcher.holder &&
            (seen.flags & O_PATH) == 0 && seen.status.st_nlink == 0 && seen.shared &&
            seen.status.st_ino == file.inode && as_watched(seen.shared.get()) == file)
            return fmt::format("{}{}", of_open_file, seen.open_file);
    }
    return {};
}

// 0: the watch has a path.
uint32_t open_file_of(const image::InotifyWatch &watch)
{
    uint32_t id = 0;
    if (watch.path.starts_with(of_open_file))
        std::from_chars(watch.path.data() + of_open_file.size(),
                        watch.path.data() + watch.path.size(), id);
    return id;
}

// The name for inotify_add_watch(2), by a descriptor of the watched file if it has no other name.
std::string name_of(const image::InotifyWatch &watch, int descriptor)
{
    return open_file_of(watch) != 0 ? fmt::format("/proc/self/fd/{}", descriptor)
                                    : std::string(watch.path);
}

// A saved path is that of the watched file itself, which may be a symbolic link.
uint32_t as_saved(const image::InotifyWatch &watch)
{
    return open_file_of(watch) != 0 ? 0 : IN_DONT_FOLLOW;
}

// The path is found by the inode.
image::InotifyWatch parse(Saving &saving, std::string_view line,
                          const std::vector<WatchedPath> &known, uint64_t &inode,
                          const Seen &watcher)
{
    image::InotifyWatch watch;
    const Watched file = take_watched(line, watch.watch);
    std::string_view mask = capture::take_word(line);
    mask.remove_prefix(std::min(std::string_view("mask:").size(), mask.size()));
    watch.mask = static_cast<uint32_t>(capture::take_number(mask, 16)) &
                 (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT);
    inode = file.inode;
    for (const WatchedPath &candidate : known) {
        struct stat now;
        if (candidate.inode == inode && lstat(candidate.path.c_str(), &now) == 0 &&
            now.st_ino == inode && now.st_dev == candidate.device)
            watch.path = saving.keep(candidate.path);
    }
    if (watch.path.empty())
        watch.path = saving.keep(by_open_file(saving, watcher, file));
    return watch;
}

Result<void> save(Saving &saving, const Seen &seen)
{
    int waiting = 0;
    if (ioctl(seen.shared.get(), FIONREAD, &waiting) != 0)
        return Error::from_errno("looking at inotify events", errno);
    if (waiting > 0)
        saving.refuse(seen, "inotify events that were not read yet",
                      "read them before the checkpoint", capture::Passing::soon);
    std::vector<WatchedPath> known;
    std::string_view rest = seen.info;
    while (!rest.empty()) {
        std::string_view line = capture::take_line(rest);
        if (capture::take_word(line) != "inotify")
            continue;
        if (known.empty()) {
            Result<std::vector<WatchedPath>> all = saving.watched(seen);
            if (!all)
                return all.error();
            known = std::move(*all);
        }
        uint64_t inode = 0;
        image::InotifyWatch watch = parse(saving, line, known, inode, seen);
        watch.open_file = seen.open_file;
        if (watch.path.empty())
            saving.refuse(seen,
                          fmt::format("inotify watch {} of inode {}, whose path is not known",
                                      watch.watch, inode),
                          "add watches by inotify_add_watch(3), and remove those of files that "
                          "lost their name, unless the process has them open");
        saving.records().add(watch);
    }
    return {};
}

// Watch numbers go up by one each time: those in between are used up. The program's own masks are
// set at the very end, by the process, so that it sees no event of the restart.
Result<void> add_watches(const Opening &opening, int fd, std::vector<image::InotifyWatch> watches)
{
    std::ranges::sort(watches, {}, &image::InotifyWatch::watch);
    for (const image::InotifyWatch &watch : watches) {
        const std::string path = name_of(watch, opening.made(open_file_of(watch)));
        for (;;) {
            const int got = inotify_add_watch(fd, path.c_str(), IN_MOVE_SELF | as_saved(watch));
            if (got < 0)
                return Error(errno, fmt::format("watching {}: {}", watch.path, strerror(errno)));
            if (got == watch.watch)
                break;
            if (got > watch.watch || inotify_rm_watch(fd, got) != 0)
                return Error(EEXIST, fmt::format("watching {}: its number {} is taken", watch.path,
                                                 watch.watch));
        }
    }
    int waiting = 0; // removed watches are reported
    while (ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0) {
        char events[16384];
        if (read(fd, events, sizeof(events)) <= 0)
            return Error::from_errno("emptying an inotify descriptor", errno);
    }
    return {};
}

Result<void> open_one(Opening &opening, const image::OpenFile &open_file)
{
    Fd made(inotify_init1(IN_CLOEXEC | static_cast<int>(open_file.flags & O_NONBLOCK)));
    if (!made && errno == EMFILE)
        return Error(EMFILE, "making an inotify descriptor: the user has as many as may be; raise "
                             "fs.inotify.max_user_instances, or end what else uses them");
    if (!made)
        return Error::from_errno("making an inotify descriptor", errno);
    std::vector<image::InotifyWatch> watches;
    std::ranges::copy_if(opening.of<image::InotifyWatch>(), std::back_inserter(watches),
                         [&](const auto &watch) { return watch.open_file == open_file.id; });
    if (Result<void> added = add_watches(opening, made.get(), std::move(watches)); !added)
        return added;
    return opening.keep(std::move(made), open_file.id);
}

Result<void> open(Opening &opening)
{
    for (const image::InotifyWatch &watch : opening.of<image::InotifyWatch>()) {
        if (const auto open_file = opening.named(watch.open_file, "an inotify watch"); !open_file)
            return open_file.error();
    }
    for (const image::OpenFile *open_file : opening.of_kind(image::FileKind::inotify)) {
        if (opening.is_opened(open_file->id))
            continue;
        if (Result<void> done = open_one(opening, *open_file); !done)
            return done;
    }
    return {};
}

// Each watch reports an unmount, so asking for that changes nothing. A watch that was added for
// nothing else has an empty mask, which the kernel would not take.
void finish(Opening &opening)
{
    restore::Program &program = opening.program();
    for (const image::InotifyWatch &watch : opening.of<image::InotifyWatch>()) {
        if (!opening.cares_for(watch.open_file) || opening.is_redirected(watch.open_file))
            continue;
        const int fd = opening.descriptor(watch.open_file);
        const uint32_t watched = open_file_of(watch);
        if (watched != 0 && opening.is_redirected(watched))
            continue; // it is another file now
        const std::string path = name_of(watch, watched != 0 ? opening.descriptor(watched) : -1);
        program.call_exact(
            fmt::format("watching {}", watch.path), SYS_inotify_add_watch,
            static_cast<uint64_t>(watch.watch),
            {value(fd), program.text(path), value(watch.mask | IN_UNMOUNT | as_saved(watch))});
    }
}

} // namespace

const Kind inotify_kind = {
    .link = "anon_inode:inotify",
    .has_own_file = true,
    .only_of_processes = "an inotify descriptor,",
    .save = save,
    .open = open,
    .finish = finish,
};

} // namespace cryo::resources
