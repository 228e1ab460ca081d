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

// The teller ends when nobody has the returned socket any more, or the calling thread ends.
Result<Fd> start_owner_teller();

// By the id outside. Nothing: the teller is gone, or has not answered for so long. May be called by
// several processes and threads at once.
std::optional<uid_t> ask_owner(int teller, int file, int patience_ms = 10'000);

} // namespace cryo
