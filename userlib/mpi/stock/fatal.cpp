// SPDX-License-Identifier: Apache-2.0
#include "mpi/stock/fatal.hpp"
#include "sys/raw.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace cryo::mpi {

namespace {

// One system call, so that lines of several ranks do not mix. Not dprintf, which registers its
// stream in the C library's list of all streams, under a lock.
void write_line(const char *format, va_list arguments)
{
    constexpr char prefix[] = "cryo: ";
    constexpr size_t before = sizeof(prefix) - 1;
    char text[1024];
    memcpy(text, prefix, before);
    vsnprintf(text + before, sizeof(text) - before - 1, format, arguments);
    const size_t length = strlen(text);
    text[length] = '\n';
    sys::call(SYS_write, STDERR_FILENO, text, length + 1);
}

} // namespace

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
}

void fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    write_line(format, arguments);
    va_end(arguments);
    _exit(1);
}

void lacks(const char *name)
{
    fatal("the MPI library that is installed here has no %s, which the program calls", name);
}

} // namespace cryo::mpi
