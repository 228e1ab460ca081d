// SPDX-License-Identifier: Apache-2.0
// Devices: of most of them nothing is known about their state. Without any are those that opening
// them restores completely, also where their node was removed: root makes another one for a moment.
#include "resources/every_kind.hpp"

#include "base/left_over.hpp"
#include "base/trust.hpp"
#include "resources/object_rights.hpp"
#include "resources/paths.hpp"
#include "resources/reopening.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

// /dev/null, zero, full, random and urandom.
bool is_plain(const struct stat &status)
{
    const unsigned number = minor(status.st_rdev);
    return S_ISCHR(status.st_mode) && major(status.st_rdev) == 1 &&
           (number == 3 || number == 5 || number == 7 || number == 8 || number == 9);
}

std::string_view refused(const Seen &seen)
{
    return is_plain(seen.status) ? "" : "the device";
}

Result<void> check(const image::File &file, const struct stat &now)
{
    if (!S_ISCHR(now.st_mode) || now.st_rdev != file.device_number)
        return Error(ENODEV, fmt::format("{} is no longer the device that was saved", file.path));
    return {};
}

// An image decides neither which other device is opened, nor that something else is.
Result<Fd> open_node(int directory, const char *name, const image::File &file, uint32_t flags)
{
    const Fd found(openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat now;
    if (!found || fstat(found.get(), &now) != 0)
        return Error::from_errno(fmt::format("looking at the device {}", name), errno);
    if (!is_plain(now) || now.st_rdev != file.device_number)
        return Error(ENODEV, fmt::format("{} is no longer the device that was saved", name));
    return open_again(found.get(), flags, name);
}

// The node has a directory of its own, which no other user can rename or exchange.
Result<Fd> node_for_a_moment(const Opening &opening, const std::string &place,
                             const image::File &file, uint32_t flags)
{
    const Fd there(open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!there || !opening.trust().keeps_names(there.get()))
        return Error(EPERM, place + ": another user may rename what is made there");
    const Result<DirectoryForNow> directory = DirectoryForNow::make(place);
    if (!directory)
        return directory.error().within("making a device for a moment");
    constexpr const char *name = "device";
    const int within = directory->lock.get();
    Result<Fd> made = mknodat(within, name, S_IFCHR | S_IRUSR | S_IWUSR, file.device_number) == 0
                          ? open_node(within, name, file, flags)
                          : Error::from_errno("making a device in " + directory->path, errno);
    unlinkat(within, name, 0);
    rmdir(directory->path.c_str());
    return made;
}

const char *usual_name(uint64_t device_number)
{
    switch (minor(device_number)) {
    case 3:
        return "/dev/null";
    case 5:
        return "/dev/zero";
    case 7:
        return "/dev/full";
    case 8:
        return "/dev/random";
    default:
        return "/dev/urandom";
    }
}

// Without the privilege to make a node, or where none can be opened, the usual one does the same.
Result<Fd> open_without_name(Opening &opening, const image::File &file, uint32_t flags)
{
    const std::string place(file.path.substr(0, std::max<size_t>(file.path.rfind('/'), 1)));
    Result<Fd> made = Error(EPERM, "a rehearsal makes no device");
    if (!opening.rehearses())
        made = node_for_a_moment(opening, place, file, flags);
    if (!made && !opening.rehearses())
        made = node_for_a_moment(opening, "/dev", file, flags);
    if (made) {
        if (std::string lost =
                give_object_rights(made->get(), file, opening.trust(), "a device without a name");
            !lost.empty())
            opening.notice(std::move(lost));
        return made;
    }
    const char *usual = usual_name(file.device_number);
    Result<Fd> instead = open_node(AT_FDCWD, usual, file, flags);
    if (instead)
        opening.notice(fmt::format("the device {}, which was removed, is {} now: {}", file.path,
                                   usual, made.error().text()));
    return instead;
}

Result<void> open_removed(Opening &opening)
{
    std::map<uint32_t, int> opened; // by FILE
    for (const image::OpenFile *one : opening.of_kind(image::FileKind::char_device)) {
        const image::File &file = opening.of<image::File>().at(one->file);
        if ((file.flags & image::kFileUnlinked) == 0 || opening.is_opened(one->id))
            continue;
        const auto known = opened.find(file.id);
        Result<Fd> made = known != opened.end() ? open_again(known->second, one->flags, file.path)
                                                : open_without_name(opening, file, one->flags);
        if (!made)
            return made.error();
        if (Result<void> kept = opening.keep(std::move(*made), one->id); !kept)
            return kept;
        opened.emplace(file.id, opening.made(one->id));
    }
    return {};
}

constexpr ByName by_name = {.check = check, .devices = Devices::opened};

} // namespace

const Kind char_device_kind = {
    .is = is_file<S_IFCHR>,
    .refused = refused,
    .open = open_removed,
    .by_name = &by_name,
};

const Kind block_device_kind = {
    .is = is_file<S_IFBLK>,
    .refused = [](const Seen &) -> std::string_view { return "the device"; },
};

} // namespace cryo::resources
