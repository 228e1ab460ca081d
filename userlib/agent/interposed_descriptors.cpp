// SPDX-License-Identifier: Apache-2.0
// Interposes functions of the C library, so that a program that closes "all descriptors" keeps the
// control socket and its door, and one that wants their numbers gets them: the agent's descriptors
// move. To the program these numbers are not open, nor are those that the agent has for the time of
// a checkpoint; one of these that is wanted just then is busy. A program that closes the former by
// raw system calls, bypassing even the C library's syscall(), cannot be saved; the checkpoint says
// so.
#include "agent/interposed.hpp"
#include "agent/kept_numbers.hpp"
#include "agent/sharers.hpp"
#include "agent/undisturbed.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <fcntl.h>
#include <initializer_list>
#include <unistd.h>

namespace cryo::agent {

namespace {

int (*real_close)(int);
int (*real_close_range)(unsigned, unsigned, int);
int (*real_dup2)(int, int);
int (*real_dup3)(int, int, int);

template <class F>
F known(F &function)
{
    return known_by(function, find_real_descriptor_functions);
}

// The agent's descriptor variable that has this number, or null.
int *own_of_number(unsigned fd)
{
    for (int *own : {&state.listener, &state.door}) {
        if (*own > 0 && fd == static_cast<unsigned>(*own) && has_our_descriptors())
            return own;
    }
    return nullptr;
}

// The agent cannot be told by a child that has memory of its own: there the number is taken from
// it, and the process is refused by name.
bool is_to_move(unsigned fd)
{
    return has_our_memory() && own_of_number(fd) != nullptr;
}

bool is_kept_number(unsigned fd)
{
    return lowest_kept(fd, fd) >= 0;
}

bool is_ours(unsigned fd)
{
    return own_of_number(fd) != nullptr || is_kept_number(fd);
}

// The lowest one from `first` to `last`; −1: there is none.
long lowest_of_ours(unsigned first, unsigned last)
{
    long lowest = lowest_kept(first, last);
    for (const int own : {state.listener, state.door}) {
        const auto number = static_cast<unsigned>(own);
        if (number >= first && number <= last && (lowest < 0 || own < lowest) &&
            own_of_number(number) != nullptr)
            lowest = own;
    }
    return lowest;
}

int converted(long result)
{
    if (!sys::failed(result))
        return static_cast<int>(result);
    errno = static_cast<int>(-result);
    return -1;
}

// No request may arrive while the descriptor has two numbers.
long take_number(int from, int fd, int flags)
{
    const Undisturbed undisturbed;
    int *const own = own_of_number(static_cast<unsigned>(fd));
    const long elsewhere = sys::call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, fd + 1);
    long result = elsewhere;
    if (!sys::failed(elsewhere)) {
        result = sys::call(SYS_dup3, from, fd, flags);
        if (sys::failed(result))
            sys::call(SYS_close, elsewhere);
        else
            *own = static_cast<int>(elsewhere);
    }
    return result;
}

// A lodger interposes the function, too, and skips its own descriptors.
long close_stretch(unsigned first, unsigned last, unsigned flags)
{
    if (!has_lodger() || real_close_range == nullptr)
        return sys::call(SYS_close_range, first, last, flags);
    return real_close_range(first, last, static_cast<int>(flags)) == 0 ? 0 : -errno;
}

long close_around(unsigned first, unsigned last, unsigned flags)
{
    for (long own = lowest_of_ours(first, last); own >= 0; own = lowest_of_ours(first, last)) {
        const auto ours = static_cast<unsigned>(own);
        const long result = first < ours ? close_stretch(first, ours - 1, flags) : 0;
        if (sys::failed(result) || last == ours)
            return result;
        first = ours + 1;
    }
    return close_stretch(first, last, flags);
}

} // namespace

void find_real_descriptor_functions()
{
    find(real_close, "close");
    find(real_close_range, "close_range");
    find(real_dup2, "dup2");
    find(real_dup3, "dup3");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int close(int fd)
{
    if (!is_ours(static_cast<unsigned>(fd)))
        return known(real_close)(fd);
    errno = EBADF;
    return -1;
}

CRYO_INTERPOSED int close_range(unsigned first, unsigned last, int flags) noexcept
{
    if (first > last) {
        errno = EINVAL;
        return -1;
    }
    return converted(close_around(first, last, static_cast<unsigned>(flags)));
}

CRYO_INTERPOSED void closefrom(int lowest) noexcept
{
    close_around(lowest < 0 ? 0 : static_cast<unsigned>(lowest), ~0U, 0);
}

CRYO_INTERPOSED int dup2(int from, int to) noexcept
{
    if (is_to_move(static_cast<unsigned>(to)))
        return converted(take_number(from, to, 0));
    if (is_kept_number(static_cast<unsigned>(to)))
        return converted(-EBUSY);
    return known(real_dup2)(from, to);
}

CRYO_INTERPOSED int dup3(int from, int to, int flags) noexcept
{
    if (is_to_move(static_cast<unsigned>(to)))
        return converted(take_number(from, to, flags));
    if (is_kept_number(static_cast<unsigned>(to)))
        return converted(-EBUSY);
    return known(real_dup3)(from, to, flags);
}

} // extern "C"
