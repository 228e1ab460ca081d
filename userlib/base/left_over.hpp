// SPDX-License-Identifier: Apache-2.0
//
// What a restart has under a name of its own for as long as it lasts, and would leave if it is
// killed (SIGKILL): the next one of the same user that makes something there removes it. The name
// tells on which boot it was made, since only the kernel of that boot knows whether the restart
// still has it; what another machine has made, or the time before a reboot, stays.
//
//     sweep_left_files(*directory);
//     std::string path = through + "/" + name_for_now("data"); // data.cryo.5f0c91d2.XXXXXX
//     Fd made(mkostemp(path.data(), O_CLOEXEC));               // open for as long as it is used
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace cryo {

// A pattern for mkostemp(3). `before` is cut if the whole would be too long for a name.
std::string name_for_now(std::string_view before);
bool is_name_for_now(std::string_view name);

// Removes regular files with such a name that no process has open or mapped.
void sweep_left_files(const Directory &directory);

struct Unmap {
    void operator()(void *page) const;
};
// Keeps a file in use without a descriptor, of which a restart may need all that it may have.
using HeldFile = std::unique_ptr<void, Unmap>;
HeldFile hold_file(int fd);

// Removes sockets with such a name that no process has. Nothing of one that listens is taken.
void sweep_left_sockets(const Directory &directory);
std::string socket_for_now(); // a name in a directory

struct DirectoryForNow {
    std::string path;
    Fd lock; // while it is open, no other restart removes it

    // In `place`, where those are removed that restarts have left, if they hold nothing but
    // sockets, FIFOs and devices.
    static Result<DirectoryForNow> make(const std::string &place);
};

} // namespace cryo
