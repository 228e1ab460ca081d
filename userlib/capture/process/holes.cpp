// SPDX-License-Identifier: Apache-2.0
#include "capture/process/holes.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/sysinfo.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// Checks both: while a swap area is being switched off, sysinfo counts it as free; in a container,
// /proc/swaps may be emulated.
bool nothing_is_swapped()
{
    struct sysinfo now = {};
    if (sysinfo(&now) != 0 || now.totalswap != now.freeswap)
        return false;
    const Fd file(open("/proc/swaps", O_RDONLY | O_CLOEXEC));
    if (!file)
        return errno == ENOENT; // a kernel without swap
    std::string text(65536, 0);
    const ssize_t n = read(file.get(), text.data(), text.size());
    text.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return n > 0 && text.size() < 65536 && is_swap_unused(text);
}

} // namespace

// Filename Type Size Used Priority
bool is_swap_unused(std::string_view swaps)
{
    constexpr int used = 3;
    take_line(swaps); // the headings
    while (!swaps.empty()) {
        std::string_view line = take_line(swaps);
        std::string_view word;
        for (int i = 0; i <= used; i++) {
            line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
            word = line.substr(0, line.find_first_of(" \t"));
            line.remove_prefix(word.size());
        }
        if (word != "0")
            return false;
    }
    return true;
}

// A page swapped out or in meanwhile shows up in the checks before or after, or in memory.
Result<void> leave_out_holes(AgentSession &session, std::vector<SharedPart> &parts)
{
    std::vector<SharedPart> there;
    for (const SharedPart &part : parts) {
        Result<std::vector<Run>> runs = std::vector<Run>{{part.start, part.end}};
        if (part.is_memory && nothing_is_swapped()) {
            Result<std::vector<Run>> touched =
                session.memory().touched(RemoteAddress(part.start), RemoteAddress(part.end));
            if (!touched && touched.error().code() != EOPNOTSUPP)
                return touched.error();
            if (touched && nothing_is_swapped())
                runs = std::move(touched);
        }
        for (const Run &run : *runs) {
            SharedPart one = part;
            one.page += (run.start - part.start) / image::kPageSize;
            one.start = run.start;
            one.end = run.end;
            there.push_back(one);
        }
    }
    parts = std::move(there);
    return {};
}

} // namespace cryo::capture
