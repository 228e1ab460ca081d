// SPDX-License-Identifier: Apache-2.0
#include "count.hpp"

#include "cli/command.hpp"
#include "metrics/commands.hpp"

void count(const char *command, const cryo::Result<nlohmann::json> &end)
{
    const auto counter = cryo::metrics::CommandCount::from_environment("ompi-checkpoint");
    cryo::metrics::Done what = {.good = false};
    if (end)
        what = {.stopped_s = static_cast<double>(end->value("longest_stop_ns", uint64_t(0))) / 1e9,
                .bytes = end->value("bytes", uint64_t(0))};
    const cryo::Result<void> counted = counter ? counter->add(what) : counter.error();
    if (!counted)
        cryo::cli::say(command, counted.error().text());
}
