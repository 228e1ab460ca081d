// SPDX-License-Identifier: Apache-2.0
#include "recover/restart.hpp"

#include "base/pipe.hpp"
#include "recover/report.hpp"

#include <cstdlib>
#include <spawn.h>
#include <unistd.h>
#include <vector>

namespace cryo::recover {

namespace {

// A launcher that uses srun starts its daemons by a step of Slurm's. Where a node is lost, the step
// of the launcher before stays, and the fresh one's would wait for its processors until the job's
// end.
std::vector<char *> environment_of_launcher()
{
    static char overlap[] = "SLURM_OVERLAP=1";
    std::vector<char *> all;
    for (char **one = environ; *one != nullptr; one++)
        all.push_back(*one);
    if (getenv("SLURM_JOB_ID") != nullptr && getenv("SLURM_OVERLAP") == nullptr)
        all.push_back(static_cast<char *>(overlap));
    all.push_back(nullptr);
    return all;
}

} // namespace

Result<Restart> begin_restart(const Subject &subject, const std::string &image,
                              const std::vector<std::string> &more, const sigset_t &mask)
{
    Result<PipeEnds> report = make_pipe();
    if (!report)
        return report.error();
    std::vector<std::string> words = subject.restart_words(image, report->write.get(), more);
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // To its own number: it stays open in the new program.
    posix_spawn_file_actions_adddup2(&actions, report->write.get(), report->write.get());
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    Restart begun;
    std::vector<char *> variables = environment_of_launcher();
    const int error = posix_spawn(&begun.pid, arguments[0], &actions, &attributes, arguments.data(),
                                  subject.has_daemon() ? variables.data() : environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return Error::from_errno(words.front(), error);
    begun.report = std::move(report->read);
    return begun;
}

Return return_in(const nlohmann::json &line)
{
    return {.pid = process_in(line, "pid"),
            .own_pid = process_in(line, "own_pid"),
            .saved_at_ns = number_in(line, "saved_at_ns").value_or(0),
            .keeper = process_in(line, "keeper")};
}

} // namespace cryo::recover
