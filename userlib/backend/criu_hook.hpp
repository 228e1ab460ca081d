// SPDX-License-Identifier: Apache-2.0
//
// Runs code when criu has written everything and the processes are still stopped. criu then runs
// its action script, which is this program: it notifies the waiter and exits as that one replies.
// Without permission (the waiter failed or was killed), criu resumes the processes.
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
    // False: criu has ended without calling the hook.
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
