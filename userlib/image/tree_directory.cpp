// SPDX-License-Identifier: Apache-2.0
#include "image/tree_directory.hpp"

#include "image/base_finder.hpp"
#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::image {

namespace {

// The files that may be removed, tree.cryo last; an error if there are any others.
Result<std::vector<std::string>> files_of(const Directory &directory)
{
    const auto unknown = [&](const Error &error) {
        return Error(ENOTEMPTY, fmt::format("{}: what is in it cannot be known ({}), so it is not "
                                            "replaced; choose a new directory",
                                            directory.path(), error.text()));
    };
    const std::string tree = directory.path(kTreeFile);
    Fd fd(openat(directory.fd(), kTreeFile, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!fd && errno == ENOENT)
        return Error(ENOTEMPTY,
                     directory.path() + ": holds other files than images; choose a new directory");
    if (!fd)
        return unknown(Error::from_errno(tree, errno));
    const auto image = Image::open(std::move(fd), tree);
    if (!image)
        return unknown(image.error());
    std::vector<std::pair<std::string, Digest>> members;
    const Result<void> read = (*image)->for_each<Member>([&](const Member &m) {
        if (m.state == MemberState::saved)
            members.emplace_back(m.name, Digest::from_bytes(m.image_id));
    });
    if (!read)
        return unknown(read.error());
    const Result<std::vector<std::string>> names = directory.names();
    if (!names)
        return unknown(names.error());
    std::vector<std::string> files;
    for (const std::string &name : *names) {
        if (name == kTreeFile)
            continue;
        const auto member =
            std::ranges::find(members, name, &std::pair<std::string, Digest>::first);
        const Result<std::optional<Digest>> id = look_for_id(directory, name);
        if (!id)
            return unknown(id.error());
        if (member == members.end() || *id != member->second)
            return Error(ENOTEMPTY, directory.path(name) +
                                        ": is none of the snapshot's images; the "
                                        "directory is not replaced, choose a "
                                        "new one");
        files.push_back(name);
    }
    files.emplace_back(kTreeFile);
    return files;
}

} // namespace

Result<void> check_tree_directory(const Directory &parent, const std::string &name)
{
    const Result<Directory> directory = parent.enter(name);
    if (!directory)
        return directory.error();
    const Result<std::vector<std::string>> files = files_of(*directory);
    return files ? Result<void>() : files.error();
}

Result<void> remove_tree_directory(const Directory &parent, const std::string &name)
{
    const Result<Directory> directory = parent.enter(name);
    if (!directory)
        return directory.error();
    const Result<std::vector<std::string>> files = files_of(*directory);
    if (!files)
        return files.error();
    for (const std::string &file : *files) {
        if (Result<void> gone = directory->remove(file); !gone)
            return gone;
    }
    return parent.remove(name);
}

} // namespace cryo::image
