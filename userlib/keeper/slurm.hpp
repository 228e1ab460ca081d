// SPDX-License-Identifier: Apache-2.0
//
// When the Slurm job that this process belongs to ends. Slurm 22.05 does not tell its jobs in
// SLURM_JOB_END_TIME as later releases do, so its controller is asked, by squeue(1).
//
//     const slurm::End end = slurm::end_of_job();
//     if (!end.trouble.empty())
//         say(end.trouble);
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::keeper::slurm {

bool in_job();

struct End {
    double at = 0; // seconds of CLOCK_REALTIME; 0: the job has no end, or it is not known
    std::string trouble = {}; // why it is not known
};
End end_of_job();

// The parts of it, for tests.

// The squeue that a shell would find in `path`. As root only one that no other user could have put
// there: root may have kept somebody's PATH.
Result<std::string> find_squeue(const char *path, uid_t caller);
// That of squeue. As root without what leads programs to files that other users may have made.
std::vector<std::string> environment_of_squeue(uid_t caller);
// What squeue prints of the job; it is ended if that takes longer than `patience_ms`.
Result<std::string> ask(const std::string &squeue, const std::string &job, int patience_ms);
// Of several jobs, such as the other elements of an array, the line of this one; no value: the job
// has no end.
Result<std::optional<double>> read_answer(std::string_view answer, std::string_view job);

} // namespace cryo::keeper::slurm
