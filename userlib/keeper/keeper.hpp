// SPDX-License-Identifier: Apache-2.0
//
// Makes the automatic checkpoints of one program until the program ends. The keeper is neither its
// child nor its parent, so that a failure of the keeper never affects the program.
//
//     Keeper keeper(settings, pid, pidfd);
//     Result<void> ready = keeper.prepare();
//     keeper.work();
#pragma once

#include "base/fd.hpp"
#include "keeper/flusher.hpp"
#include "keeper/metrics.hpp"
#include "keeper/remote_series.hpp"
#include "keeper/schedule.hpp"
#include "keeper/series.hpp"
#include "keeper/settings.hpp"
#include "keeper/state.hpp"
#include "keeper/worker.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryo::keeper {

class Keeper
{
  public:
    Keeper(Settings settings, pid_t pid, Fd program);

    // To be called before the program starts: checks that the directories may be used.
    Result<void> prepare();
    void work();

  private:
    enum class Reason { due, asked, deadline, ended };

    Reason wait_until(double when);
    bool save(Reason reason);
    std::vector<std::string> image_command(const std::string &name) const;
    std::vector<std::string> snapshot_command() const;
    Result<Cost> take(const std::string &name);
    void tidy();
    void flush();
    void begin_copying(const Images &images, const std::vector<int> &locks);
    Images announce_copies();
    void flushed();
    void copying_failed(const Error &error);
    double next_due(double begun, double ended) const;
    void note(const std::string &sentence) const;
    void warn(const Error &error);
    static void tell(const std::string &sentence);
    void remember();
    void publish();
    Result<void> check_second();
    Result<void> check_images() const;
    Result<void> learn_images();
    Result<void> check_remote();
    void name_series();
    void flush_to_remote();
    void announce_sent(const std::set<std::string> &names);
    void note_sent();
    void note_not_sent(const std::set<std::string> &names);
    Result<void> check_job_place();
    void flush_job();
    void job_flushed(double took);
    std::string newest_there() const;
    void note_image(const std::string &name);
    void note_copies();
    std::string newest_in(const Series &series) const;
    void finish();
    void announce_last();
    bool is_taken_over() const;
    void forget_sent(const std::set<std::string> &names);
    bool end_copying(double until);

    Settings settings_;
    pid_t pid_;
    Fd program_; // a pidfd
    Fd signals_; // SIGUSR1: now; SIGTERM: now, and end
    Series series_;
    std::optional<Series> second_;
    std::shared_ptr<const RemoteSeries> remote_;   // in its place
    std::optional<elsewhere::JobPlace> job_place_; // in its place, of an MPI job
    unsigned made_meanwhile_ = 0;                  // snapshots, since the copying began
    bool lacks_image_ = false;  // the second place: the last one, and it is not being copied
    std::string remote_newest_; // what that has, or is being sent
    Images going_;              // what it is to remove, of the images sent before
    Schedule schedule_;
    std::optional<Flusher> flusher_;
    std::optional<State> state_;
    std::optional<State> second_state_;
    std::optional<Metrics> metrics_;
    bool publishing_fails_ = false; // and this has been reported
    std::string warned_;            // without its remark
    bool copying_fails_ = false;    // and this has been reported
    std::string base_;              // the image that the program came from, or the last one made
    double born_;
    double ran_before_ = 0;
    bool last_made_ = false; // the last checkpoint before the deadline
    bool ending_ = false;
};

} // namespace cryo::keeper
