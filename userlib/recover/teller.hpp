// SPDX-License-Identifier: Apache-2.0
//
// What a supervisor tells its user, on standard error, and cr_status, in a file.
//
//     Teller teller({"./app"}, "/scratch/run");
//     teller.open();
//     teller.said().faults++;  teller.publish();
//     teller.say("./app: process 412 was killed by SIGKILL");
#pragma once

#include "recover/published.hpp"

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

class Teller
{
  public:
    Teller(const std::vector<std::string> &words, const std::string &directory);
    void open();
    Published &said() { return said_; }
    void publish();
    void note_program(pid_t pid, pid_t own_pid);
    void withdraw(); // the file
    void say(const std::string &text) const;

  private:
    void fail(const Error &error);

    Published said_;
    std::optional<Publisher> publisher_;
};

} // namespace cryo::recover
