// SPDX-License-Identifier: Apache-2.0
// inotify_init(2): watches of paths. The kernel lists them by inode; the agent has recorded which
// paths were watched.
#include "resources/every_kind.hpp"

#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::resources {

using restore::value;

namespace {

// "wd:1a ino:9e7e sdev:800013 mask:800afce ignored_mask:0 …"; the path is found by the inode.
image::InotifyWatch parse(Saving &saving, std::string_view line,
                          const std::vector<WatchedPath> &known, uint64_t &inode)
{
    const auto number = [&](std::string_view key) {
        std::string_view word = capture::take_word(line);
        word.remove_prefix(std::min(key.size(), word.size()));
        return capture::take_number(word, 16);
    };
    image::InotifyWatch watch;
    watch.watch = static_cast<int32_t>(number("wd:"));
    inode = number("ino:");
    number("sdev:");
    watch.mask =
        static_cast<uint32_t>(number("mask:")) & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT);
    for (const WatchedPath &candidate : known) {
        struct stat now;
        if (candidate.inode == inode && lstat(candidate.path.c_str(), &now) == 0 &&
            now.st_ino == inode && now.st_dev == candidate.device)
            watch.path = saving.keep(candidate.path);
    }
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
        image::InotifyWatch watch = parse(saving, line, known, inode);
        watch.open_file = seen.open_file;
        if (watch.path.empty())
            saving.refuse(seen,
                          fmt::format("inotify watch {} of inode {}, whose path is not known",
                                      watch.watch, inode),
                          "add watches by inotify_add_watch(3), and remove those of files that "
                          "lost their name");
        saving.records().add(watch);
    }
    return {};
}

// A saved path is that of the watched file itself, which may be a symbolic link (IN_DONT_FOLLOW).
constexpr uint32_t as_saved = IN_DONT_FOLLOW;

// Watch numbers go up by one each time: those in between are used up. The program's own masks are
// set at the very end, by the process, so that it sees no event of the restart.
Result<void> add_watches(int fd, std::vector<image::InotifyWatch> watches)
{
    std::ranges::sort(watches, {}, &image::InotifyWatch::watch);
    for (const image::InotifyWatch &watch : watches) {
        const std::string path(watch.path);
        for (;;) {
            const int got = inotify_add_watch(fd, path.c_str(), IN_MOVE_SELF | as_saved);
            if (got < 0)
                return Error(errno, fmt::format("watching {}: {}", path, strerror(errno)));
            if (got == watch.watch)
                break;
            if (got > watch.watch || inotify_rm_watch(fd, got) != 0)
                return Error(EEXIST,
                             fmt::format("watching {}: its number {} is taken", path, watch.watch));
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
    if (Result<void> added = add_watches(made.get(), std::move(watches)); !added)
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
        program.call_exact(
            fmt::format("watching {}", watch.path), SYS_inotify_add_watch,
            static_cast<uint64_t>(watch.watch),
            {value(fd), program.text(watch.path), value(watch.mask | IN_UNMOUNT | as_saved)});
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
