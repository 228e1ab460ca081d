// SPDX-License-Identifier: Apache-2.0
//
// Finds the installed command `criu`, checks whether it can be used here, and runs it.
//
//     Result<CriuCommand> criu = CriuCommand::find();    // refuses with the reason
//     Result<CriuRun> run = criu->start({"dump", ...}, {{lifeline, 10}});
//     Result<void> done = run->wait("log");
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace cryo::backend {

class CriuRun
{
  public:
    explicit CriuRun(pid_t pid) : pid_(pid) {}
    pid_t pid() const { return pid_; }
    // On failure, criu's messages in `log` become the error's text.
    Result<void> wait(const std::string &log) const;
    // A restore that has failed, and does not end by itself, is ended. `root`: its first process.
    Result<void> wait_for_restore(const std::string &log, pid_t root) const;

  private:
    pid_t pid_;
};

enum class Group {
    own,    // signals from the terminal must not interrupt its work
    callers // it restores processes into the caller's session and group
};

class CriuCommand
{
  public:
    // Finds a criu that is installed, permitted, and able to work on this kernel.
    static Result<CriuCommand> find();

    const std::string &version() const { return version_; } // "criu 3.17.1"
    // `descriptors`: pairs of ours and criu's numbers. `variable`: NAME=VALUE, for its environment.
    Result<CriuRun> start(std::vector<std::string> words, Group group,
                          const std::vector<std::pair<int, int>> &descriptors,
                          std::string variable = {}) const;

  private:
    std::string path_, version_;
};

} // namespace cryo::backend
