// SPDX-License-Identifier: Apache-2.0
//
// A file that the program has open may have a mode that forbids to open it like that again: it was
// made with that mode (git, beanstalkd), or the mode was changed since. The owner may open it all
// the same, by another mode for a moment.
//
//     Result<Fd> log = open_lent(found, O_RDWR, [&] { return open_found(found, O_RDWR); });
#pragma once

#include "base/open_found.hpp"

#include <functional>

namespace cryo {

// What `open` returns; if that is EACCES and the file is the user's own, once more while the owner
// may do what the flags ask for: to write, of who connects to a socket. The mode is as before
// afterwards, also if this process is killed.
Result<Fd> open_lent(const Found &found, int flags, const std::function<Result<Fd>()> &open);
// As above; `file` is a descriptor of it.
Result<Fd> open_lent(int file, int flags, const std::function<Result<Fd>()> &open);

} // namespace cryo
