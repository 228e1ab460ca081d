// SPDX-License-Identifier: Apache-2.0
#include "second.hpp"

#include <cerrno>
#include <fmt/format.h>

using cryo::Error;
using cryo::Result;
using cryo::elsewhere::JobPlace;

namespace {

constexpr const char *option = "--second";

} // namespace

Result<std::optional<JobPlace>> second_place(const std::string &text, bool ends_job)
{
    if (text.empty())
        return std::optional<JobPlace>();
    if (!JobPlace::is_meant(text))
        return Error(EINVAL, fmt::format("--second: wants a place at a server or in an object "
                                         "store, as in cryo://n7/job1 or s3://bucket/job1, not "
                                         "'{}' (--where is the directory)",
                                         text));
    Result<JobPlace> place = JobPlace::parse(text);
    if (!place)
        return place.error().within(option);
    if (const Result<void> possible = place->check(ends_job); !possible)
        return possible.error().within(option);
    return std::optional<JobPlace>(std::move(*place));
}

cryo::cli::TellProgress at_most_percents(cryo::cli::TellProgress tell)
{
    constexpr uint64_t parts = 100;
    return [tell = std::move(tell), told = uint64_t(0)](uint64_t done, uint64_t total) mutable {
        if (done - told < total / parts && done < total)
            return;
        told = done;
        tell(done, total);
    };
}
