// SPDX-License-Identifier: Apache-2.0
//
// Who is in the scope of a checkpoint and takes no part in it: a cr_restart between the processes
// it brought back, and who is traced or traces, as the user decides.
//
//     Bystanders bystanders(options);
//     Result<std::string> why = bystanders.why(relation);  // empty: it is to be saved
#pragma once

#include "base/result.hpp"
#include "capture/checkpoint.hpp"
#include "capture/members.hpp"

#include <map>
#include <optional>
#include <string>

namespace cryo::capture {

class Bystanders
{
  public:
    explicit Bystanders(const CheckpointOptions &options) : options_(options) {}

    // An error: it may neither be saved nor be left out.
    Result<std::string> why(const Relation &relation);

    // What to do instead where nobody was found and the process is a cr_restart; else empty.
    static std::string instead_of(pid_t pid);

  private:
    pid_t traced_by(pid_t tracer);

    const CheckpointOptions &options_;
    std::optional<std::map<pid_t, pid_t>> tracees_; // tracer → one of those it traces
};

} // namespace cryo::capture
