// SPDX-License-Identifier: Apache-2.0
//
// What is changed for a moment must not stay changed if this process is killed in that moment
// (SIGKILL). A process of its own waits for that end, and then undoes the change.
//
//     {
//         const Undoing after_a_kill("cr_mode", {file}, [&] { chmod(path.c_str(), own); });
//         chmod(path.c_str(), other);
//         ...
//         chmod(path.c_str(), own);
//     } // nothing is left to be undone
#pragma once

#include "base/fd.hpp"

#include <functional>
#include <sys/types.h>
#include <vector>

namespace cryo {

class Undoing
{
  public:
    // `undo` runs in the other process, which has of all descriptors only `kept`. Another thread
    // of this one may have held any lock when it began, so `undo` only makes system calls. Where no
    // process can be made, there is none, and only a kill makes a difference.
    Undoing(const char *name, std::vector<int> kept, const std::function<void()> &undo);
    ~Undoing();
    Undoing(const Undoing &) = delete;
    Undoing &operator=(const Undoing &) = delete;

  private:
    void dismiss();

    pid_t guard_ = -1;
    Fd ours_; // the guard sees its end
};

} // namespace cryo
