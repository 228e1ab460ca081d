// SPDX-License-Identifier: Apache-2.0
//
// The name of a socket, as an image has it.
//
//     const SocketName name(saved.local);
//     const InDirectory inside(cwd); // a name may be relative to it
//     Result<void> free = remove_stale(name, SOCK_DGRAM);
//     bind(fd, name.get(), name.size);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/format.hpp"

#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace cryo::resources {

struct SocketName {
    sockaddr_storage storage = {};
    socklen_t size = 0;

    explicit SocketName(image::Bytes bytes);
    std::string text() const;
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
    // The file name of a UNIX address; nullptr where there is none.
    const char *path() const;
    // The name of another file in the directory of that file; an error if `file` is no such name.
    Result<SocketName> beside(std::string_view file) const;
};

// For a UNIX name that is a file: an abstract name of the same size, a different one for each.
std::vector<uint8_t> without_file(image::Bytes name);

// UNIX names may be relative to the program's working directory.
class InDirectory
{
  public:
    explicit InDirectory(const std::string &path);
    ~InDirectory();
    InDirectory(const InDirectory &) = delete;
    InDirectory &operator=(const InDirectory &) = delete;

  private:
    Fd before_;
    bool there_;
};

// Removes a socket file without a socket: bind(2) would fail because of it.
Result<void> remove_stale(const SocketName &name, int kind);

// Renames the files of sockets as the program did it: so the sockets report their old names
// (getsockname), and are found under the new ones. The new name of one may be the old name of
// another: so all files are moved away from their old names before the first gets its new one.
//
//     SocketRenames renames;
//     for (...) {
//         bind(fd, old.get(), old.size);
//         Result<void> left = renames.leave(old, renamed, SOCK_DGRAM);
//     }
//     Result<void> done = renames.arrive();
class SocketRenames
{
  public:
    SocketRenames() = default;
    ~SocketRenames(); // removes files that have not arrived
    SocketRenames(const SocketRenames &) = delete;
    SocketRenames &operator=(const SocketRenames &) = delete;

    // Hides the file of a socket that was bound to `old`, in the same directory and under a name
    // that no other restart has. A file that cannot be hidden is removed.
    Result<void> leave(const SocketName &old, const SocketName &renamed, int kind);
    Result<void> arrive();

  private:
    struct OnItsWay {
        std::string hidden, old;
        SocketName renamed;
        int kind;
    };
    std::vector<OnItsWay> all_;
};

} // namespace cryo::resources
