// SPDX-License-Identifier: Apache-2.0
//
// When the program has last said something about its memory that the kernel keeps with the mapping
// (madvise(2)). To find out what it has said, a checkpointer reads what takes the kernel long
// where there is much memory; it need not do so again if nothing was said since.
#pragma once

#include <cstdint>

namespace cryo::agent {

// From now on all that is said by functions of the C library is noticed.
void notice_advice();

// Around a call of the system.
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
