// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/instructions.hpp"

#include "capture/attach/remote_memory.hpp"
#include "look/address_range.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <string>

namespace cryo::capture {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view call_and_return = "\x0f\x05\xc3"sv;
constexpr std::string_view wide_sigreturn = "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"sv;
constexpr std::string_view short_sigreturn = "\xb8\x0f\x00\x00\x00\x0f\x05"sv;

constexpr size_t piece_size = 1 << 20;

void note(RemoteAddress &to, std::string_view code, std::string_view wanted, RemoteAddress start)
{
    const size_t at = code.find(wanted);
    if (to == RemoteAddress() && at != std::string_view::npos)
        to = start + at;
}

} // namespace

Result<Instructions> find_instructions(const Proc &proc)
{
    const Result<std::string> maps = proc.read("maps");
    if (!maps)
        return Error(ESRCH, fmt::format("no process {}", proc.pid()));
    Instructions found;
    std::string piece;
    std::string_view rest = *maps;
    while (!rest.empty()) {
        std::string_view line = take_line(rest);
        const std::optional<Run> range = take_range(line);
        const std::string_view rights = take_word(line);
        if (!range || rights != "r-xp" || line.find("[vsyscall]") != std::string_view::npos)
            continue;
        // What stretches over the border of two pieces is passed over: there are many.
        const RemoteAddress end(range->end);
        for (RemoteAddress at(range->start); at < end; at += piece_size) {
            piece.resize(std::min<uint64_t>(piece_size, end - at));
            if (!read_memory(proc.pid(), at, piece.data(), piece.size()))
                break;
            note(found.call, piece, call_and_return, at);
            note(found.sigreturn, piece, wide_sigreturn, at);
            note(found.sigreturn, piece, short_sigreturn, at);
            if (found.call != RemoteAddress() && found.sigreturn != RemoteAddress())
                return found;
        }
    }
    return Error(ENOTSUP,
                 fmt::format("process {}: its code has no instructions by which Cryo could "
                             "enter it: start it under cr_run",
                             proc.pid()));
}

} // namespace cryo::capture
