// SPDX-License-Identifier: Apache-2.0
//
// fmt::print() that does not throw when the reader is gone, a disk is full or a signal arrives.
// Failed writes to standard output are reported at the end (cli::whole).
//
//     print("{} pages\n", pages);
//     print(stderr, "{}: {}\n", command, printable_message(text));
#pragma once

#include <cerrno>
#include <cstdio>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>

namespace cryo {

inline void put_text(FILE *to, std::string_view text)
{
    while (!text.empty()) {
        errno = 0;
        const size_t written = fwrite(text.data(), 1, text.size(), to);
        text.remove_prefix(written);
        if (text.empty() || errno != EINTR)
            return;
        clearerr(to);
    }
}

template <typename... T>
void print(FILE *to, fmt::format_string<T...> format, T &&...arguments)
{
    put_text(to, fmt::format(format, std::forward<T>(arguments)...));
}

template <typename... T>
void print(fmt::format_string<T...> format, T &&...arguments)
{
    put_text(stdout, fmt::format(format, std::forward<T>(arguments)...));
}

} // namespace cryo
