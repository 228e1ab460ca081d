// SPDX-License-Identifier: Apache-2.0
//
// Programs and jobs on this machine that Cryo can save: those that run under cr_run, MPI jobs, and
// those that are saved or brought back by themselves (recover/published.hpp).
//
//     Survey survey;
//     for (const Running &one : survey.look())
//         print("{} {}\n", one.said.program, one.state);
#pragma once

#include "recover/published.hpp"
#include "survey/shelf.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cryo::survey {

struct Running {
    recover::Published said = {}; // of a job, `program` is its launcher
    std::string state = {};       // that of recover::name_of(), or "ready", "unready"
    uid_t owner = 0;
    bool job = false;
    size_t processes = 0; // of a job: its ranks
    // "": it can be saved now, as far as that is seen without disturbing it; nothing: unknown.
    std::optional<std::string> obstacle = {};
    // Of the last checkpoint; 0, "": unknown.
    uint64_t stopped_ns = 0;
    uint64_t bytes = 0;
    std::string level = {}; // where a job's images are besides their directory

    // The program was to be saved or brought back by itself, and is not.
    bool is_amiss() const;
};

class Survey
{
  public:
    // The caller's; root sees all.
    std::vector<Running> look();

  private:
    void look_at_last(Running &one);

    std::map<std::string, Stored> images_; // the last one of each directory, by path
};

// Why a process cannot be saved now; "": nothing is seen that speaks against it. The process is not
// disturbed.
std::string obstacle_of(pid_t pid);

// The caller's jobs whose launchers run on this machine; root sees those of all. `ranks` gets the
// processes here that belong to them.
std::vector<Running> look_at_jobs(const std::vector<Running> &known, std::vector<pid_t> &ranks);

// Processes here that the caller may look at: the caller's; root has those of all.
std::vector<pid_t> own_processes();

} // namespace cryo::survey
