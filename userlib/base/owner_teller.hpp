// SPDX-License-Identifier: Apache-2.0
//
// Finds the owner of a file where the caller's user namespace hides it: a process that stays
// outside of the namespace answers.
//
//     Result<Fd> teller = start_owner_teller();                // before the namespace is entered
//     std::optional<uid_t> owner = ask_owner(teller->get(), file);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <optional>
#include <sys/types.h>

namespace cryo {

// The helper process ends when no process has the returned socket any more, or when the calling
// thread ends.
Result<Fd> start_owner_teller();

// Returns the id outside the namespace; nothing if the helper process is gone or has not answered
// within the limit. May be called by several processes and threads at once.
std::optional<uid_t> ask_owner(int teller, int file, int patience_ms = 10'000);

} // namespace cryo
