// SPDX-License-Identifier: Apache-2.0
// Regular files that are opened by their names. capture/files/file_contents.cpp chooses those whose
// contents are saved (contents.hpp), and restore/open_regular.cpp makes them.
#include "resources/about_process.hpp"
#include "resources/every_kind.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::resources {

namespace {

Result<void> check(const image::File &file, const struct stat &now)
{
    if (!S_ISREG(now.st_mode))
        return Error(EINVAL, fmt::format("file {} is no regular file any more", file.path));
    if (static_cast<uint64_t>(now.st_size) < file.size &&
        (file.flags & image::kFileContentsSaved) == 0)
        return Error(EINVAL, fmt::format("file {} has shrunk: {} bytes, {} when it was saved",
                                         file.path, now.st_size, file.size));
    return {};
}

// The kernel reads it for nobody but the program's own instructions.
std::string_view refused(const Seen &seen)
{
    return seen.link == "/secretmem (deleted)" ? "secret memory (memfd_secret)," : "";
}

constexpr ByName by_name = {.check = check, .go_to = go_to};

} // namespace

const Kind regular_kind = {
    .is = [](const Seen &seen) { return has_path(seen) && !about_ended(seen); },
    .refused = refused,
    .by_name = &by_name,
};

} // namespace cryo::resources
