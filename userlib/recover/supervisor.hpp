// SPDX-License-Identifier: Apache-2.0
//
// The process that the user has started as `cr_run --recover PROGRAM`. It stays the parent of the
// program, or of the cr_restart that has brought the program back, passes signals on, and ends as
// the program ends. A keeper makes the images.
//
//     Supervisor supervisor({.words = {"./app"}, .keeping = settings, .policy = {}});
//     if (const std::optional<int> code = supervisor.run())
//         return *code;
//     execvp(...);                          // here, in a child, the program begins
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "keeper/settings.hpp"
#include "recover/decision.hpp"
#include "recover/job_news.hpp"
#include "recover/launcher_end.hpp"
#include "recover/leftovers.hpp"
#include "recover/nodes.hpp"
#include "recover/past.hpp"
#include "recover/report.hpp"
#include "recover/restart.hpp"
#include "recover/standby.hpp"
#include "recover/subject.hpp"
#include "recover/teller.hpp"
#include "recover/wishes.hpp"

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <sys/signalfd.h>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

struct Task {
    std::vector<std::string> words;
    keeper::Settings keeping; // complete; of a job, if keeping.mpi
    Policy policy;
};

class Supervisor
{
  public:
    explicit Supervisor(Task task);

    // Nothing: the caller is a child that has to become the program. Else the exit status.
    std::optional<int> run();
    // In the child, of a job: the pipe for its first daemon, and the series of its snapshots
    // (coord::Supervision).
    Fd take_report() { return std::move(report_of_job_); }
    const std::string &series() const { return series_; }

  private:
    Result<void> prepare();
    // True: in the child.
    Result<bool> begin();
    void restart(const std::string &image);
    void await_end();
    bool await_change(int timeout_ms);
    void take_signals();
    void take_signal(const signalfd_siginfo &info);
    void send(const signalfd_siginfo &info) const;
    void send_held();
    bool is_left_alone() const;
    bool reap();
    void listen_to(Fd report, Run run);
    void read_report();
    void welcome(const Return &back);
    template <class Enough>
    void await_daemon(const Enough &is_enough);
    bool has_left_others();
    bool is_unfinished();
    Result<void> end_leftovers();
    Result<void> await_rest();
    Result<void> await_leases(int64_t gone_ns);
    int look_at_nodes();
    void look_at_images();
    void hold_newest(const std::string &path);
    void note_standby();
    Action judge();
    Result<std::unique_ptr<Past>> take_past();
    void pause(int ms);
    void note_keeper(pid_t pid);
    void tell_unsaved(int wait_status);
    std::string fault_text(const End &end);
    void tell_fault(const End &end);
    void tell_rest();
    int finish();
    int give_up(const std::string &why);

    Task task_;
    std::string series_;
    std::unique_ptr<Subject> subject_;
    Decision decision_;
    Teller teller_;
    Leftovers leftovers_;
    Standby standby_;
    bool from_memory_ = false;       // the image from which it is being brought back
    Nodes nodes_;                    // of a job
    std::vector<std::string> hosts_; // for its next restart
    sigset_t before_ = {};           // what was blocked when we began
    Fd signals_;
    Fd watch_;         // of the directory of the images
    Report report_;    // of cr_restart, or of a job's first daemon
    Fd report_of_job_; // the other end, in the child
    JobNews news_;
    off_t input_at_ = -1;       // where standard input was, if it is a file
    pid_t child_ = 0;           // 0: none
    std::optional<int> status_; // its end
    LauncherEnd launcher_end_;  // of a job that has lost a node
    pid_t keeper_ = 0;          // of the program
    bool was_back_ = true;
    unsigned in_vain_ = 0; // restarts since it was back
    Wishes wishes_;
    std::vector<signalfd_siginfo> held_; // until the program is back
    int program_status_ = 0;             // of its last end
    std::string image_;                  // from which it is being brought back
    int64_t image_made_ns_ = 0;
    int64_t fault_ns_ = 0;
};

} // namespace cryo::recover
