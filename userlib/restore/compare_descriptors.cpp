// SPDX-License-Identifier: Apache-2.0
// Descriptors: which exist, what each refers to, and with what position and flags.
#include "restore/compare.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <map>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

using capture::field;
using capture::take_number;
using image::FileKind;

namespace {

// Files that a rehearsal replaces: terminals, and pipes to processes outside the image.
bool is_replaced(const Comparison &c, const image::OpenFile &open_file, const image::File &file)
{
    if (c.plan.redirected.count(open_file.id) != 0 || file.kind == FileKind::terminal)
        return true;
    const auto pipe = c.saved.pipes.find(open_file.file);
    return pipe != c.saved.pipes.end() && pipe->second.outside != 0;
}

const char *target_of(FileKind kind)
{
    switch (kind) {
    case FileKind::pipe:
    case FileKind::fifo: // a rehearsal has a pipe for it
        return "pipe:[";
    case FileKind::socket:
        return "socket:[";
    case FileKind::memfd:
        return "/memfd:";
    case FileKind::eventfd:
        return "anon_inode:[eventfd]";
    case FileKind::signalfd:
        return "anon_inode:[signalfd]";
    case FileKind::timerfd:
        return "anon_inode:[timerfd]";
    case FileKind::epoll:
        return "anon_inode:[eventpoll]";
    case FileKind::inotify:
        return "anon_inode:inotify";
    case FileKind::pidfd:
        return "anon_inode:[pidfd]";
    default:
        return "";
    }
}

Result<void> compare_target(const std::string &what, const std::string &now,
                            const image::OpenFile &open_file, const image::File &file)
{
    constexpr uint32_t elsewhere = image::kFileContentsSaved | image::kFileUnlinked;
    const bool by_name = file.kind == FileKind::regular || file.kind == FileKind::directory ||
                         file.kind == FileKind::char_device;
    if (by_name && (file.flags & elsewhere) == 0 && !file.path.starts_with("/proc/"))
        return same_text(what + " leads to what", now, file.path);
    if ((open_file.flags & O_PATH) != 0 || now.starts_with(target_of(file.kind)))
        return {};
    return difference(
        fmt::format("{} is {}, and a {} in the image", what, now, image::name_of(file.kind)));
}

// Compares one line of fdinfo.
Result<void> compare_line(const std::string &what, std::string_view info, const char *line,
                          int base, uint64_t saved)
{
    std::string_view text = field(info, line);
    return same_hex(fmt::format("{}: {}", what, line), take_number(text, base), saved);
}

// The last number is the id in the namespace of its own that a rehearsal has.
Result<void> compare_pidfd(const std::string &what, std::string_view info, uint32_t saved)
{
    std::string_view ids = field(info, "NSpid");
    ids.remove_prefix(ids.find_last_of(" \t") + 1);
    const uint64_t pid = take_number(ids); // 0 of "-1"
    if (pid == saved)
        return {};
    return difference(fmt::format("{} is a pidfd of process {}, and of {} in the image (0: one "
                                  "that has ended)",
                                  what, pid, saved));
}

Result<void> compare_own(const Comparison &c, const std::string &what, std::string_view info,
                         const image::OpenFile &open_file)
{
    for (const image::Eventfd &saved : c.saved.eventfds) {
        if (saved.open_file == open_file.id)
            return compare_line(what, info, "eventfd-count", 16, saved.count);
    }
    for (const image::Signalfd &saved : c.saved.signalfds) {
        if (saved.open_file == open_file.id)
            return compare_line(what, info, "sigmask", 16, saved.mask);
    }
    if (const auto saved = c.saved.pidfds.find(open_file.id); saved != c.saved.pidfds.end())
        return compare_pidfd(what, info, saved->second.pid);
    return {};
}

bool has_position(const image::File &file)
{
    return file.kind == FileKind::regular || file.kind == FileKind::memfd;
}

Result<void> compare_info(const Comparison &c, const std::string &what, std::string_view info,
                          const image::Descriptor &saved, const image::OpenFile &open_file,
                          const image::File &file)
{
    std::string_view text = field(info, "flags");
    const uint64_t flags = take_number(text, 8);
    const bool closes = (flags & O_CLOEXEC) != 0;
    // A file opened by TIOCGPTPEER shows the flags that it was opened with, too.
    const bool may_show = file.kind == FileKind::terminal || file.kind == FileKind::pty_master;
    if (closes != saved.close_on_exec && !(closes && may_show))
        return difference(fmt::format("{} is {} by exec", what, closes ? "closed" : "not closed"));
    if (is_replaced(c, open_file, file))
        return {};
    constexpr uint64_t settled = O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECT | O_PATH;
    if (Result<void> same =
            same_hex(what + ": its flags", flags & settled, open_file.flags & settled);
        !same)
        return same;
    if (has_position(file) && (open_file.flags & O_PATH) == 0) {
        if (Result<void> same = compare_line(what, info, "pos", 10, open_file.position); !same)
            return same;
    }
    return compare_own(c, what, info, open_file);
}

// Descriptors that shared an open file still do; assumed where kcmp(2) is not permitted.
Result<void> compare_sharing(const Comparison &c)
{
    std::map<uint32_t, uint32_t> first; // OPEN_FILE → descriptor
    for (const image::Descriptor &saved : c.saved.descriptors) {
        const auto [one, fresh] = first.emplace(saved.open_file, saved.fd);
        if (!fresh && syscall(SYS_kcmp, c.pid, c.pid, KCMP_FILE, one->second, saved.fd) > 0)
            return difference(fmt::format("descriptors {} and {} do not share their open file",
                                          one->second, saved.fd));
    }
    return {};
}

Result<void> compare_one(const Comparison &c, const image::Descriptor &saved)
{
    const auto open_file = c.saved.open_files.find(saved.open_file);
    if (open_file == c.saved.open_files.end())
        return {};
    const auto file = c.saved.files.find(open_file->second.file);
    if (file == c.saved.files.end())
        return {};
    const std::string what = fmt::format("descriptor {}", saved.fd);
    Result<std::string> target = c.proc().link(fmt::format("fd/{}", saved.fd));
    Result<std::string> info = c.proc().read(fmt::format("fdinfo/{}", saved.fd));
    if (!target || !info)
        return !target ? target.error() : info.error();
    if (!is_replaced(c, open_file->second, file->second)) {
        if (Result<void> same = compare_target(what, *target, open_file->second, file->second);
            !same)
            return same;
    }
    return compare_info(c, what, *info, saved, open_file->second, file->second);
}

} // namespace

Result<void> compare_descriptors(const Comparison &c)
{
    Result<std::vector<int>> open = c.proc().numbers("fd");
    if (!open)
        return open.error();
    std::vector<int> now, saved;
    for (const int fd : *open) {
        if (fd < c.plan.floor) // those above are the restart's own
            now.push_back(fd);
    }
    for (const image::Descriptor &one : c.saved.descriptors)
        saved.push_back(static_cast<int>(one.fd));
    std::ranges::sort(saved);
    if (now != saved)
        return difference(fmt::format("its descriptors are {}, and {} in the image",
                                      fmt::join(now, " "), fmt::join(saved, " ")));
    for (const image::Descriptor &one : c.saved.descriptors) {
        if (Result<void> same = compare_one(c, one); !same)
            return same;
    }
    return compare_sharing(c);
}

} // namespace cryo::restore
