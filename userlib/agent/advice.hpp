// SPDX-License-Identifier: Apache-2.0
//
// Records when the program last gave memory advice that the kernel keeps with the mapping
// (madvise(2)). Reading that advice back takes the kernel long where there is much memory; a
// checkpointer need not do it again if no such advice was given since.
#pragma once

#include <cstdint>

namespace cryo::agent {

// From now on, madvise calls made through the C library are recorded.
void notice_advice();

// Lives around one madvise system call.
class Advising
{
  public:
    explicit Advising(int advice);
    ~Advising();
    Advising(const Advising &) = delete;
    Advising &operator=(const Advising &) = delete;

  private:
    bool lasting_;
};

// Nanoseconds; 0: just now, or not known.
uint64_t since_last_advice();

} // namespace cryo::agent
