// SPDX-License-Identifier: Apache-2.0
//
// Processes in the scope of a checkpoint that it does not save: a cr_restart among the processes it
// restored, and tracers and tracees, depending on the user's options.
//
//     Bystanders bystanders(options);
//     Result<std::string> why = bystanders.why(relation);  // empty: the process is saved
#pragma once

#include "base/result.hpp"
#include "capture/process/options.hpp"
#include "look/members.hpp"

#include <map>
#include <optional>
#include <string>

namespace cryo::capture {

class Bystanders
{
  public:
    explicit Bystanders(const CheckpointOptions &options) : options_(options) {}

    // An error means that the process may neither be saved nor left out.
    Result<std::string> why(const Relation &relation);

    // Advice if nothing was found and the process is a cr_restart; otherwise empty.
    static std::string instead_of(pid_t pid);

  private:
    pid_t traced_by(pid_t tracer);

    const CheckpointOptions &options_;
    std::optional<std::map<pid_t, pid_t>> tracees_; // tracer → one of its tracees
};

} // namespace cryo::capture
