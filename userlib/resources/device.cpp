// SPDX-License-Identifier: Apache-2.0
// Devices: of most of them nothing is known about their state. Without any are those that opening
// them restores completely.
#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <sys/sysmacros.h>

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
    if (!is_plain(seen.status))
        return "the device";
    return seen.link.ends_with(gone) ? "a device without a name," : "";
}

Result<void> check(const image::File &file, const struct stat &now)
{
    if (!S_ISCHR(now.st_mode) || now.st_rdev != file.device_number)
        return Error(ENODEV, fmt::format("{} is no longer the device that was saved", file.path));
    return {};
}

constexpr ByName by_name = {.check = check, .devices = Devices::opened};

} // namespace

const Kind char_device_kind = {
    .is = is_file<S_IFCHR>,
    .refused = refused,
    .by_name = &by_name,
};

const Kind block_device_kind = {
    .is = is_file<S_IFBLK>,
    .refused = [](const Seen &) -> std::string_view { return "the device"; },
};

} // namespace cryo::resources
