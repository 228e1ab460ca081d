// SPDX-License-Identifier: Apache-2.0
//
// A command's conversation with a job's first daemon.
//
//     Result<Client> job = Client::to(pid_of_mpirun);
//     job->limit(600);                                     // --time
//     job->send({{"type", "checkpoint"}, ...});
//     Result<json> end = job->until_end([](const json &message) { ... }, [] { interrupted });
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "coord/job.hpp"

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace cryo::coord {

class Client
{
  public:
    // Waits some seconds for a cr_run that has not become mpirun yet.
    static Result<Client> to(pid_t launcher);
    const Job &job() const { return job_; }
    // The launcher and the job's daemon are the caller's, and not those of a user whom root looks
    // at.
    bool is_own() const { return own_; }

    // Bounds the whole conversation, whatever the daemon says, by what a checkpoint with this
    // patience (--time) takes at most, longer once images are written; 0: there is no bound.
    void limit(int64_t patience_s);
    // Bounds it by this time, for a question that the daemon answers at once.
    void limit_to(std::chrono::milliseconds most);
    Result<void> send(const nlohmann::json &message);
    // EINTR: a signal came, perhaps SIGINT, which a caller may block elsewhere. ETIMEDOUT: the
    // daemon is stopped, or hangs, or never comes to an end.
    Result<nlohmann::json> next();
    // `tell` gets everything until the message of type "end"; an end that is not ok is an error.
    Result<nlohmann::json> until_end(const std::function<void(const nlohmann::json &)> &tell,
                                     const std::function<void()> &interrupted);

  private:
    Client() = default;
    Result<void> receive();

    Job job_;
    bool own_ = false;
    Fd socket_;
    std::string in_;
    std::chrono::milliseconds limit_ = {};
    std::chrono::steady_clock::time_point looked_;             // for what the daemon says
    bool writes_images_ = false;                               // the job
    std::optional<std::chrono::steady_clock::time_point> end_; // of the conversation
};

} // namespace cryo::coord
