// SPDX-License-Identifier: Apache-2.0
//
// What cr_status shows. Each supervisor keeps a file in RUNTIME_DIR/supervised (coord/place.hpp), a
// directory that its user alone may enter; what has no supervisor but is saved by itself is found
// by its keeper. A file may be out of date, as its supervisor may have been killed: what it says of
// processes counts only if these are there.
//
//     Result<Publisher> publisher = Publisher::open();
//     publisher->publish(said);               // again at each change
//     publisher->withdraw();
//
//     for (const Seen &seen : look_around()) ...
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

struct Published {
    std::string boot = {};  // what processes are counted in: the boot of this machine
    uint64_t pid_space = 0; // and the pid namespace
    pid_t supervisor = 0;   // 0: none, it is only saved
    uint64_t supervisor_started = 0;
    pid_t program = 0; // its first process; 0: there is none at the moment
    uint64_t program_started = 0;
    pid_t own_pid = 0; // by which it knows itself
    std::string command = {};
    std::string directory = {};  // of its images
    bool kept = true;            // images are made
    std::string checkpoint = {}; // the newest image; "": none yet
    int64_t checkpoint_ns = 0;   // since 1970
    unsigned faults = 0;
    unsigned recoveries = 0;
    std::string last_fault = {};
    std::vector<std::string> lost_nodes = {}; // of a job
    std::vector<std::string> spares = {};     // that are left
    std::string standby = {};                 // the image that is held in memory; "": none
    uint64_t standby_bytes = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Published, boot, pid_space, supervisor,
                                                supervisor_started, program, program_started,
                                                own_pid, command, directory, kept, checkpoint,
                                                checkpoint_ns, faults, recoveries, last_fault,
                                                lost_nodes, spares, standby, standby_bytes)

// Fills in the process's start, by which a later process of this number is told apart; 0: it is
// gone.
uint64_t started(pid_t pid);
// Where processes of the caller are counted.
Published from_here();

class Publisher
{
  public:
    // EACCES: another user has made the directory.
    static Result<Publisher> open();

    // After an error nothing is published rather than what is out of date.
    Result<void> publish(const Published &said);
    void withdraw();

  private:
    explicit Publisher(Directory directory) : directory_(std::move(directory)) {}

    Directory directory_;
};

enum class Standing {
    running,      // supervised and saved
    unsaved,      // supervised, but no images are made
    recovering,   // it has ended, and is brought back
    unsupervised, // its supervisor was killed, and it goes on
    kept,         // saved, and not supervised
    ended,        // it and its supervisor were killed
    elsewhere,    // in another pid namespace, and so not known
};
const char *name_of(Standing standing);
// Whether it comes back by itself.
bool is_protected(Standing standing);

struct Seen {
    Published said;
    Standing standing;
    uid_t owner;
};

Standing standing_of(const Published &said, uid_t owner);
// The caller's; root sees all.
std::vector<Seen> look_around();
// What is in a directory of supervisors that belongs to `owner`.
std::vector<Seen> look_into(const std::string &runtime, uid_t owner);

} // namespace cryo::recover
