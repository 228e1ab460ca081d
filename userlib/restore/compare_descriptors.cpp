// SPDX-License-Identifier: Apache-2.0
// Descriptors: which exist, what each refers to, and with what position and flags.
#include "resources/kinds.hpp"
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
    const auto pipe = c.saved.of<image::Pipe>().find(open_file.file);
    return pipe != c.saved.of<image::Pipe>().end() && pipe->second.outside != 0;
}

Result<void> compare_target(const std::string &what, const std::string &now,
                            const image::OpenFile &open_file, const image::File &file)
{
    constexpr uint32_t elsewhere = image::kFileContentsSaved | image::kFileUnlinked;
    const bool by_name = resources::kind(file.kind).by_name != nullptr;
    if (by_name && (file.flags & elsewhere) == 0 && !file.path.starts_with("/proc/"))
        return same_text(what + " leads to what", now, file.path);
    if ((open_file.flags & O_PATH) != 0 || now.starts_with(resources::kind(file.kind).link))
        return {};
    return difference(
        fmt::format("{} is {}, and a {} in the image", what, now, image::name_of(file.kind)));
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
        if (Result<void> same = same_line(what, info, "pos", 10, open_file.position); !same)
            return same;
    }
    const resources::Kind &kind = resources::kind(file.kind);
    if (kind.compare == nullptr)
        return {};
    return kind.compare({c.saved.of_tree ? *c.saved.of_tree : c.saved.own, open_file, what, info});
}

// Descriptors that shared an open file still do; assumed where kcmp(2) is not permitted.
Result<void> compare_sharing(const Comparison &c)
{
    std::map<uint32_t, uint32_t> first; // OPEN_FILE → descriptor
    for (const image::Descriptor &saved : c.saved.descriptors()) {
        const auto [one, fresh] = first.emplace(saved.open_file, saved.fd);
        if (!fresh && syscall(SYS_kcmp, c.pid, c.pid, KCMP_FILE, one->second, saved.fd) > 0)
            return difference(fmt::format("descriptors {} and {} do not share their open file",
                                          one->second, saved.fd));
    }
    return {};
}

Result<void> compare_one(const Comparison &c, const image::Descriptor &saved)
{
    const auto open_file = c.saved.open_files().find(saved.open_file);
    if (open_file == c.saved.open_files().end())
        return {};
    const auto file = c.saved.files().find(open_file->second.file);
    if (file == c.saved.files().end())
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
    for (const image::Descriptor &one : c.saved.descriptors())
        saved.push_back(static_cast<int>(one.fd));
    std::ranges::sort(saved);
    if (now != saved)
        return difference(fmt::format("its descriptors are {}, and {} in the image",
                                      fmt::join(now, " "), fmt::join(saved, " ")));
    for (const image::Descriptor &one : c.saved.descriptors()) {
        if (Result<void> same = compare_one(c, one); !same)
            return same;
    }
    return compare_sharing(c);
}

} // namespace cryo::restore
