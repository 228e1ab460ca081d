// SPDX-License-Identifier: Apache-2.0
//
// Blocks all signals until the end of the scope: no handler of the program's runs in it, and no
// checkpoint begins.
#pragma once

#include "sys/raw.hpp"

#include <csignal>
#include <cstdint>

namespace cryo::agent {

class Undisturbed
{
  public:
    Undisturbed()
    {
        const uint64_t all = ~uint64_t(0);
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof(all));
    }
    ~Undisturbed()
    {
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
    }
    Undisturbed(const Undisturbed &) = delete;
    Undisturbed &operator=(const Undisturbed &) = delete;

  private:
    uint64_t before_ = 0;
};

} // namespace cryo::agent
