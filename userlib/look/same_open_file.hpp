// SPDX-License-Identifier: Apache-2.0
//
// What kcmp(2) tells of open files, where it may not be called: many containers forbid it to
// whoever may not trace all processes. Both need descriptors of one's own.
#pragma once

#include "base/result.hpp"

namespace cryo::capture {

// Whether kcmp(2) has failed because it may not be called, or does not exist.
bool is_forbidden(int error);

// Whether these descriptors of ours lead to one open file.
Result<bool> is_same_open_file(int one, int other);

// Whether this epoll set watches the open file that `file` leads to, under this number. Starts a
// short-lived process.
Result<bool> is_watched(int set, int number, int file);

} // namespace cryo::capture
