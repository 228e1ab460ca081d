// SPDX-License-Identifier: Apache-2.0
//
// ThreadState keeps what the kernel knows of the calling thread while a second libc starts on it.
// The constructor saves and blocks all signals, the destructor gives everything back.
//
//     ThreadState state;
//     if (!state.complete())
//         ...                         // the kernel does not tell; nothing was changed
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
    // Only the FS base: from here on the program's libc may be used again.
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
