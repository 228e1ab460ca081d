// SPDX-License-Identifier: Apache-2.0
//
// The moment at which criu has written everything and the processes still stand still. criu calls a
// command then, which is ours again: it tells the one that waits, and ends as that one says. If
// nobody gives leave (it failed, or was killed), criu lets the processes go on.
//
//     if (std::optional<int> done = CriuHook::answer_criu()) return *done;    // first in main()
//
//     Result<CriuHook> hook = CriuHook::make(directory);
//     run(criu, {"--action-script", hook->path()});    // with hook->environment()
//     if (hook->await(criu_pid)) ... hook->give_leave();
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <sys/types.h>

namespace cryo::backend {

class CriuHook
{
  public:
    static std::optional<int> answer_criu();

    static Result<CriuHook> make(const std::string &directory);
    const std::string &path() const { return path_; }
    const std::string &environment() const { return environment_; } // NAME=VALUE
    // False: criu has ended without.
    bool await(pid_t criu);
    bool give_leave() const;
    void refuse() { connection_.reset(); }

  private:
    CriuHook(Fd listener, std::string path, std::string environment)
        : listener_(std::move(listener)), path_(std::move(path)),
          environment_(std::move(environment))
    {}

    Fd listener_, connection_;
    std::string path_, environment_;
};

} // namespace cryo::backend
