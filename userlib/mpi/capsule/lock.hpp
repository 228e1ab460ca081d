// SPDX-License-Identifier: Apache-2.0
//
// Lock: a short lock that neither libc knows of.
//
//     Hold hold(lock);
//
// It protects a few instructions, never a system call that may wait, and works with either world's
// thread-local storage.
#pragma once

#include "sys/raw.hpp"

namespace cryo::capsule {

class Lock
{
  public:
    void lock()
    {
        while (__atomic_exchange_n(&taken_, true, __ATOMIC_ACQUIRE))
            sys::call(SYS_sched_yield);
    }
    // In a restored copy: whoever held it may not be there.
    void forget() { unlock(); }
    bool is_taken() const { return __atomic_load_n(&taken_, __ATOMIC_ACQUIRE); }
    void unlock() { __atomic_store_n(&taken_, false, __ATOMIC_RELEASE); }

  private:
    bool taken_ = false; // no std::atomic: its header needs registers that hooks must not use
};

class Hold
{
  public:
    explicit Hold(Lock &lock) : lock_(lock) { lock_.lock(); }
    ~Hold() { lock_.unlock(); }
    Hold(const Hold &) = delete;
    Hold &operator=(const Hold &) = delete;

  private:
    Lock &lock_;
};

} // namespace cryo::capsule
