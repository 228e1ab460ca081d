// SPDX-License-Identifier: Apache-2.0
//
// What Prometheus is told of one program's checkpoints: a file cryo-PID.prom in a directory from
// which node_exporter reads text (docs/metrics.md). A reader sees a whole file, the old or the new
// one.
//
//     Result<Metrics> metrics = Metrics::open("/var/lib/metrics", 412, restarts);
//     metrics->saved(0.012, 1 << 20, now);
//     metrics->name_command("solver");
//     Result<void> written = metrics->write();
//     metrics->remove();
#pragma once

#include "base/directory.hpp"
#include "metrics/program.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace cryo::keeper {

class Metrics
{
  public:
    // The directory must be the caller's own, which no other user may write to.
    static Result<Metrics> open(const std::string &directory, pid_t pid, uint64_t restarts);

    // `at` in seconds since 1970.
    void saved(double stopped_s, uint64_t bytes, double at);
    void failed();

    // The first name stays: with another one Prometheus would begin to count anew.
    void name_command(std::string name);

    std::string text() const;
    Result<void> write();
    // The file that write() has made, and no other of this name.
    void remove();

  private:
    Metrics(Directory directory, pid_t pid, uint64_t restarts);
    std::string name() const;

    Directory directory_;
    metrics::Program program_;
    ino_t written_ = 0; // 0: none
};

// The name of the program that a process executes, as ps(1) shows it; "" if that cannot be read.
std::string command_of(pid_t pid);

} // namespace cryo::keeper
