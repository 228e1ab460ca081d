// SPDX-License-Identifier: Apache-2.0
#include "capture/files/file_access.hpp"

#include "base/open_found.hpp"
#include "base/trust.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

unsigned wanted(uint32_t flags)
{
    switch (flags & O_ACCMODE) {
    case O_RDONLY:
        return R_OK;
    case O_WRONLY:
        return W_OK;
    default:
        return R_OK | W_OK;
    }
}

} // namespace

uid_t owner_of_file(const resources::Seen &seen, const FileOptions &options)
{
    if (!options.owner_of)
        return seen.status.st_uid;
    if (seen.shared)
        return options.owner_of(seen.shared.get()).value_or(unknown_owner);
    const Result<Found> found = look_at(seen.link, Links::not_at_end);
    if (!found || found->status.st_dev != seen.status.st_dev ||
        found->status.st_ino != seen.status.st_ino)
        return unknown_owner;
    return options.owner_of(found->fd.get()).value_or(unknown_owner);
}

void note_access(const resources::Seen &seen, const DescriptorLook &look, resources::Saving &saving)
{
    constexpr const char *streams[] = {"--stdin", "--stdout", "--stderr"};
    const image::File &file = saving.file(seen);
    struct stat process = {};
    if ((seen.kind != image::FileKind::regular && seen.kind != image::FileKind::directory) ||
        (file.flags & (image::kFileContentsSaved | image::kFileUnlinked)) != 0 ||
        seen.passed_in >= 0)
        return;
    // Most files are the user's own, and nothing has to be asked while the program stands still: a
    // restart opens them whatever their mode is, with one exception (base/lent_mode.cpp).
    const unsigned want = wanted(seen.flags);
    if (seen.status.st_uid == geteuid() && ((seen.status.st_mode >> 6 & want) == want ||
                                            (seen.status.st_mode & (S_ISUID | S_ISGID)) == 0))
        return;
    const std::string path(file.path);
    // What root may do says nothing about the program's user.
    if (geteuid() == 0 || stat(look.proc_of(seen).path("").c_str(), &process) != 0 ||
        process.st_uid != geteuid() ||
        faccessat(AT_FDCWD, path.c_str(), static_cast<int>(want), AT_EACCESS) == 0 ||
        errno != EACCES)
        return;
    const int fd = look.first_number(seen);
    // The options of cr_restart are about the numbers of the first process, which is the holder of
    // every open file that it has.
    saving.notice(fmt::format(
        "descriptor {}: the file {} may not be opened again by this user; for a restart, {}", fd,
        path,
        seen.holder == 0 && fd <= STDERR_FILENO
            ? fmt::format("cr_restart {} FILE gives another one", streams[fd])
            : "give it a mode that allows it, or close it before the checkpoint"));
}

} // namespace cryo::capture
