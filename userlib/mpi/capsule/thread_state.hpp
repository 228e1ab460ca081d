// SPDX-License-Identifier: Apache-2.0
//
// ThreadState preserves the kernel's per-thread state while a second libc starts on this thread.
// The constructor saves it and blocks all signals; the destructor restores everything.
//
//     ThreadState state;
//     if (!state.complete())
//         ...                         // the kernel does not report it; nothing was changed
//     guest = cryo_capsule_start(...);
#pragma once

#include <csignal>
#include <cstddef>

namespace cryo::capsule {

class ThreadState
{
  public:
    ThreadState();
    ~ThreadState();
    ThreadState(const ThreadState &) = delete;
    ThreadState &operator=(const ThreadState &) = delete;

    bool complete() const { return complete_; }
    // Restores only the FS base, after which the program's libc may be used again.
    void return_home() const;

  private:
    bool complete_ = false;
    void *fs_ = nullptr;
    void *tid_address_ = nullptr;
    void *robust_list_ = nullptr;
    size_t robust_bytes_ = 0;
    unsigned long signals_ = 0;
};

} // namespace cryo::capsule
