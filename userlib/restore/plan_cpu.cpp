// SPDX-License-Identifier: Apache-2.0
// Whether this CPU has the features of the one that the program was started on: its
// libraries have chosen code by them, and its registers lie in the signal frames.
#include "libcr.h"
#include "look/cpu.hpp"
#include "restore/plan_parts.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::restore {

Result<void> check_machine(const image::Header &header)
{
    if (header.machine == image::kMachineX86_64)
        return {};
    return Error(CR_EBADARCH, fmt::format("taken on another architecture (ELF machine {}); restart "
                                          "it on one of those",
                                          header.machine));
}

Result<void> check_cpu(Planning &p)
{
    if (Result<void> same = check_machine(p.image.header()); !same)
        return same;
    const std::string missing = capture::missing_in_cpu(p.saved.cpu, capture::present_cpu());
    if (missing.empty() || p.options.force)
        return {};
    return Error(ENOTSUP, fmt::format("this CPU lacks {}, which the program may use: it ran on {}; "
                                      "restart it on such a CPU (--force restarts anyway)",
                                      missing, p.saved.cpu.model));
}

} // namespace cryo::restore
