// SPDX-License-Identifier: Apache-2.0
// Interposes prctl(2), only to learn when a program has its system calls passed to itself
// (PR_SET_SYSCALL_USER_DISPATCH). The door must tell that before: afterwards the agent's own system
// calls may be passed to the program, too. Whether all threads have switched it off again is not
// known, so it is told for good.
#include "agent/interposed.hpp"

#include <cstdarg>
#include <sys/prctl.h>

namespace cryo::agent {

namespace {

int (*real_prctl)(int, ...);

} // namespace

void find_real_prctl()
{
    find(real_prctl, "prctl");
}

bool passes_calls_on(int option, unsigned long mode)
{
    constexpr int set_user_dispatch = 59; // PR_SET_SYSCALL_USER_DISPATCH, for older headers
    return option == set_user_dispatch && mode != 0;
}

} // namespace cryo::agent

extern "C" CRYO_INTERPOSED int prctl(int option, ...) noexcept
{
    using namespace cryo::agent;
    va_list more;
    va_start(more, option);
    const auto a = va_arg(more, unsigned long);
    const auto b = va_arg(more, unsigned long);
    const auto c = va_arg(more, unsigned long);
    const auto d = va_arg(more, unsigned long);
    va_end(more);
    const auto real = known_by(real_prctl, find_real_prctl);
    const bool told = passes_calls_on(option, a) && begin_passing_calls();
    const int result = real(option, a, b, c, d);
    if (told && result == -1)
        withdraw_passing_calls();
    return result;
}
