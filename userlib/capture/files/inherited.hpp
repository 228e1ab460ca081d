// SPDX-License-Identifier: Apache-2.0
//
// The environment variable in which cr_run records, for a later checkpoint, the connections and
// FIFOs that a program inherited from the process that started it. The variable in the program's
// environment holds the boot id (inodes are meaningless after a reboot), a colon, and the names
// below, comma-separated.
#pragma once

#include <fmt/format.h>
#include <string>
#include <sys/stat.h>

namespace cryo::capture {

constexpr const char *inherited_variable = "CRYO_INHERITED";
constexpr const char *boot_id_file = "/proc/sys/kernel/random/boot_id";

// A socket's inode; or a FIFO's device and inode.
inline std::string inherited_name(const struct stat &status)
{
    return S_ISFIFO(status.st_mode) ? fmt::format("f{}.{}", status.st_dev, status.st_ino)
                                    : fmt::format("{}", status.st_ino);
}

// As it is noted: a FIFO, which the program may open itself, with the descriptor. Earlier releases
// take that for no socket.
inline std::string inherited_note(int fd, const struct stat &status)
{
    return S_ISFIFO(status.st_mode) ? fmt::format("f{}:{}.{}", fd, status.st_dev, status.st_ino)
                                    : inherited_name(status);
}

} // namespace cryo::capture
