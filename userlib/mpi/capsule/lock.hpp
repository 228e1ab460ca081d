// SPDX-License-Identifier: Apache-2.0
//
// Lock: a lock that is independent of both libcs. Waiters yield in a loop, so hold it briefly.
//
//     Hold hold(lock);
//
// It works with either world's thread-local storage and may be held across a crossing. It is not
// recursive.
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
    // In a restored copy: the thread that held it may not exist there.
    void forget() { unlock(); }
    bool is_taken() const { return __atomic_load_n(&taken_, __ATOMIC_ACQUIRE); }
    void unlock() { __atomic_store_n(&taken_, false, __ATOMIC_RELEASE); }

  private:
    bool taken_ = false; // not std::atomic: its header needs registers that hooks must not use
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
