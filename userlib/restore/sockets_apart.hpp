// SPDX-License-Identifier: Apache-2.0
//
// UNIX sockets whose files the program has removed after the bind. They have names that lead
// nowhere: something else may be there by now, or not even the directory. So each is bound to its
// name in a root directory of its own, by a short-lived process. Its file stays in a private
// directory until what is connected to the socket is connected again.
//
//     SocketsApart apart;
//     Result<void> bound = apart.bind(fd, open_file, name, "/srv"); // the working directory
//     connect(other, apart.place(open_file)->get(), ...);
#pragma once

#include "base/left_over.hpp"
#include "base/result.hpp"
#include "resources/socket/socket_name.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace cryo::restore {

class SocketsApart
{
  public:
    SocketsApart() = default;
    ~SocketsApart(); // removes the files
    SocketsApart(const SocketsApart &) = delete;
    SocketsApart &operator=(const SocketsApart &) = delete;

    Result<void> bind(int fd, uint32_t open_file, const resources::SocketName &name,
                      const std::string &cwd);
    // Where its file is; nullptr: it is not one of these.
    const resources::SocketName *place(uint32_t open_file) const;

  private:
    Result<void> bind_in_place(int fd, const resources::SocketName &name, const std::string &cwd,
                               const std::string &file);

    std::optional<DirectoryForNow> directory_;
    std::map<uint32_t, resources::SocketName> places_;
};

} // namespace cryo::restore
