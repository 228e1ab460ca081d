// SPDX-License-Identifier: Apache-2.0
//
// What is supervised: a program with its processes, or an MPI job under its launcher. The
// supervisor treats both alike, but for what is said here.
//
//     const std::unique_ptr<Subject> subject = make_subject(settings, {"mpirun", "./app"});
//     next = decision.after({.wait_status = subject->end_of(status)},
//     (*subject->past(0))->offer()); posix_spawn(..., subject->restart_words(next.image, pipe,
//     hosts));
#pragma once

#include "keeper/settings.hpp"
#include "recover/nodes.hpp"
#include "recover/past.hpp"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

struct Checkpoint {
    std::string path = {}; // "": there is none
    int64_t made_ns = 0;
};

// What a restart reads.
struct Reads {
    std::vector<std::string> files = {};    // on this node
    std::set<std::string> other_nodes = {}; // whose ranks read more there
};

class Subject
{
  public:
    explicit Subject(keeper::Settings keeping) : keeping_(std::move(keeping)) {}
    Subject(const Subject &) = delete;
    Subject &operator=(const Subject &) = delete;
    virtual ~Subject() = default;

    const keeper::Settings &keeping() const { return keeping_; }
    // EBUSY: something may still be added, and that after this time.
    virtual Result<std::unique_ptr<Past>> past(int patience_ms) const = 0;
    virtual std::string path_of(const std::string &name) const = 0; // of past()
    virtual Checkpoint newest() const = 0;
    virtual Result<Reads> reads(const std::string &name) const = 0;
    int64_t made_ns(const std::string &name) const;
    // The command that brings it back, and reports on the pipe `report`.
    // `more`: options, such as those of hosts_for().
    virtual std::vector<std::string> restart_words(const std::string &name, int report,
                                                   const std::vector<std::string> &more) const = 0;
    // Options with which a job comes back on nodes that may be used.
    virtual Result<std::vector<std::string>> hosts_for(const std::string &name,
                                                       Nodes &nodes) const = 0;
    // The end of its first process, as that of a process of the program's.
    virtual int end_of(int wait_status) const = 0;
    virtual std::string end_text(pid_t pid, int wait_status) const = 0;
    // Whether a restart that ends so has not failed for the image's sake.
    virtual bool may_pass(int wait_status) const = 0;
    // A job's first daemon tells when it is back, and what is left of it at its end.
    virtual bool has_daemon() const = 0;
    // Whether a launcher that ends so has not ended for what a rank did, but since it had lost what
    // it had started on the nodes.
    virtual bool lost_control(int wait_status) const = 0;
    // Whether a rank may have chosen the status with which a launcher ends so.
    virtual bool may_be_chosen(int wait_status) const = 0;

  private:
    keeper::Settings keeping_;
};

// `words`: the program's, or a launcher's if keeping.mpi says so. `series`: of a job's snapshots
// (coord::Supervision).
std::unique_ptr<Subject> make_subject(keeper::Settings keeping,
                                      const std::vector<std::string> &words,
                                      const std::string &series = {});

} // namespace cryo::recover
