// SPDX-License-Identifier: Apache-2.0
#include "coord/undescribed.hpp"

#include "coord/snapshot_text.hpp"

#include <algorithm>
#include <optional>
#include <sys/stat.h>

namespace cryo::coord {

namespace {

// Not above zero: it is no image's.
int pid_in(const std::string &name)
{
    const int pid = seq_of(name.substr(name.rfind('.') + 1));
    return pid > 0 && name == image_name(pid) ? pid : 0;
}

// None: the rank has no image, or several.
std::optional<SnapshotImage> only_image(const Directory &all, uint32_t rank)
{
    const Result<Directory> directory = enter_rank(all, rank);
    const Result<std::vector<std::string>> names =
        directory ? directory->names() : directory.error();
    std::optional<SnapshotImage> found;
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        const int pid = pid_in(name);
        if (pid <= 0)
            continue;
        const Result<std::optional<struct stat>> status = directory->look(name);
        if (found || !status || !*status || !S_ISREG((*status)->st_mode))
            return std::nullopt;
        found = {.rank = rank,
                 .pid = pid,
                 .file = name,
                 .bytes = static_cast<uint64_t>((*status)->st_size),
                 .is_counted = true};
    }
    return found;
}

bool has_node(const SnapshotImage &image)
{
    return !image.node.empty();
}

} // namespace

void find_undescribed(const Directory &all, Snapshot &snapshot)
{
    std::vector<SnapshotImage> images = snapshot.images;
    const auto first = std::ranges::find_if(images, has_node);
    std::string node = first != images.end() ? first->node : "";
    uint64_t bytes = 0;
    for (SnapshotImage &image : images) {
        node = has_node(image) ? image.node : node;
        if (image.file.empty()) {
            std::optional<SnapshotImage> found = only_image(all, image.rank);
            if (!found)
                return;
            image = std::move(*found);
            image.node = node;
        }
        bytes += image.bytes;
    }
    if (snapshot.counted != 0 && bytes == snapshot.counted_bytes)
        snapshot.images = std::move(images);
}

} // namespace cryo::coord
