// SPDX-License-Identifier: Apache-2.0
//
// A copy of the job's snapshots at a server or in an object store (--second), sent when the new one
// is there.
//
//     Result<std::optional<JobPlace>> second = second_place(text, ends_job);   // before
//     Result<void> sent = second->push(directory, {.progress = at_most_percents(tell)});
#pragma once

#include "elsewhere/job_place.hpp"

#include <optional>
#include <string>

// None without --second. Refuses what is known to fail, of a job that is to be ended after the
// server was asked.
cryo::Result<std::optional<cryo::elsewhere::JobPlace>> second_place(const std::string &text,
                                                                    bool ends_job);

// Tells it a hundred times at most.
cryo::cli::TellProgress at_most_percents(cryo::cli::TellProgress tell);
