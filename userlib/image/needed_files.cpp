// SPDX-License-Identifier: Apache-2.0
#include "image/needed_files.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>

namespace cryo::image {

namespace {

void add_file_of(const Image &image, std::vector<FileId> &files)
{
    struct stat status = {};
    if (fstat(image.fd(), &status) != 0)
        return;
    const FileId id(status.st_dev, status.st_ino);
    if (std::ranges::find(files, id) == files.end())
        files.push_back(id);
}

// As Image::chain(), but what was found before something is missing counts.
Result<void> add_chain(Image &image, std::vector<FileId> &files)
{
    Image *at = &image;
    for (size_t depth = 1;; depth++) {
        add_file_of(*at, files);
        if (!at->header().is_delta())
            return {};
        if (depth == kMaxDeltaDepth)
            return Error(ELOOP,
                         fmt::format("{}: more than {} images are based on each other in a row",
                                     image.name(), depth));
        const Result<Image *> base = at->base();
        if (!base)
            return base.error();
        at = *base;
    }
}

} // namespace

NeededFiles needed_files(const Snapshot &snapshot, const LookAtMember &look)
{
    NeededFiles found;
    for (const SnapshotMember &member : snapshot.members()) {
        if (member.state != MemberState::saved)
            continue;
        const Result<std::unique_ptr<Image>> image = snapshot.open_member(member);
        if (image && look)
            look(member, **image);
        const Result<void> good =
            image ? add_chain(**image, found.files) : Result<void>(image.error());
        if (!good && !found.broken)
            found.broken = good.error();
    }
    return found;
}

} // namespace cryo::image
