// SPDX-License-Identifier: Apache-2.0
// inotify: /proc/PID/fdinfo lists watches by inode; the agent recorded which paths were watched.
#include "capture/files.hpp"
#include "capture/session.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>

namespace cryo::capture {

Result<void> Files::read_inotify(const Seen &seen)
{
    int waiting = 0;
    if (ioctl(seen.shared.get(), FIONREAD, &waiting) != 0)
        return Error::from_errno("looking at inotify events", errno);
    if (waiting > 0)
        refuse(seen, "inotify events that were not read yet", "read them before the checkpoint",
               Passing::soon);
    std::vector<AgentSession::Watched> known;
    std::string_view rest = seen.info;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        if (take_word(line) != "inotify")
            continue;
        if (known.empty()) {
            Result<std::vector<AgentSession::Watched>> all = session_of(seen).watched();
            if (!all)
                return all.error();
            known = std::move(*all);
        }
        // "wd:1a ino:9e7e sdev:800013 mask:800afce ignored_mask:0 …"
        const auto number = [&](std::string_view key, int base) {
            std::string_view word = take_word(line);
            word.remove_prefix(std::min(key.size(), word.size()));
            return take_number(word, base);
        };
        image::InotifyWatch watch;
        watch.open_file = seen.open_file;
        watch.watch = static_cast<int32_t>(number("wd:", 16));
        const uint64_t inode = number("ino:", 16);
        number("sdev:", 16);
        watch.mask = static_cast<uint32_t>(number("mask:", 16)) &
                     (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT);
        for (const AgentSession::Watched &candidate : known) {
            struct stat now;
            if (candidate.inode == inode && lstat(candidate.path.c_str(), &now) == 0 &&
                now.st_ino == inode && now.st_dev == candidate.device)
                watch.path = strings_.keep(candidate.path);
        }
        if (watch.path.empty())
            refuse(seen,
                   fmt::format("inotify watch {} of inode {}, whose path is not known", watch.watch,
                               inode),
                   "add watches by inotify_add_watch(3), and remove those of files that lost "
                   "their name");
        watches_.push_back(watch);
    }
    return {};
}

} // namespace cryo::capture
