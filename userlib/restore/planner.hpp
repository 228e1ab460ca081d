// SPDX-License-Identifier: Apache-2.0
//
// Makes restart plans from images: the system calls that turn fresh processes into the saved ones.
// Everything that can be checked beforehand is checked here, and refused by name, before a process
// exists.
//
//     RestartOptions options;
//     Result<std::unique_ptr<TreePlan>> plan = plan_restart(*snapshot, options);
#pragma once

#include "base/fd.hpp"
#include "base/left_over.hpp"
#include "base/trust.hpp"
#include "image/reader.hpp"
#include "image/records.hpp"
#include "image/snapshot.hpp"
#include "plan/program.hpp"
#include "protocol/agent.hpp"
#include "resources/socket/kept_connections.hpp"
#include "restore/file_options.hpp"
#include "restore/ipc_objects.hpp"
#include "restore/late_seals.hpp"
#include "restore/nursery.hpp"
#include "restore/saved.hpp"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cryo::restore {

struct RestartOptions {
    bool restore_pid = true; // all have their saved ids
    // If not all: those ids that can be had here. The plan decides which, or that it be none.
    bool prefer_pid = false;
    bool none_kept = false;
    std::set<uint32_t> kept_ids = {};
    bool keeps(uint32_t id) const { return restore_pid || kept_ids.contains(id); }
    bool own_pid_namespace = false; // the caller is the first process of a new pid namespace
    bool force = false;             // changed mapped files are accepted
    // The process group and the session of the root are the saved ones, not cr_restart's.
    bool restore_pgid = false;
    bool restore_sid = false;
    // Nevertheless, a root that led a session without a terminal, as daemons do, leads one again.
    bool daemons_apart = true;
    // The root is killed when cr_restart is: an MPI launcher that finds its child killed waits
    // until the rank, too, has closed its pipes.
    bool bound_to_parent = false;
    bool other_surroundings = false; // with fewer filters of system calls are accepted
    int then_signal = 0;             // sent to all before they resume
    bool lazy = false;               // memory is mapped from the image where that can be done
    // The processes are only restored to be compared (compare.hpp), beside a program that may
    // still run: nothing outside is changed, and they never run. Needs namespaces of its own.
    bool rehearse = false;
    int device = -1; // /dev/cryo: the kernel module makes the memory; −1: without it
    // For a restart requested through libcr: the process becomes the child of our parent. If the
    // restart fails and leaves a process that only our parent can reap, its pid is stored in *lost.
    bool for_requester = false;
    pid_t *lost = nullptr;
    // Owners whose files are accepted in place of the saved ones.
    std::shared_ptr<const Trust> trust = std::make_shared<Trust>();
    FileOptions files;
};

// Pages to be sent down the page pipe, in this order.
struct Fill {
    uint32_t object;
    uint64_t page, count;
};

struct Replacement {
    std::string beside, path;
    bool in_place = false; // copied into the file that is there, not renamed
    uint64_t size = 0;
    int64_t modified = 0;
    uint16_t mapped = 0; // where the process has mapped that file
    HeldFile held = {};  // the file beside it is in use
};

// Files placed beside those that they replace, until the restored
// process renames or copies them. Those that it did not use are removed,
// and so are directories that were made for them, unless the restart succeeds.
class Replacements
{
  public:
    Replacements() = default;
    Replacements(const Replacements &) = delete;
    Replacements &operator=(const Replacements &) = delete;
    ~Replacements()
    {
        for (const Replacement &one : all_)
            unlink(one.beside.c_str());
        for (const std::string &directory : made_)
            rmdir(directory.c_str()); // fails if it is used
    }
    void add_directory(std::string made) { made_.push_back(std::move(made)); }
    // The program runs, and may have emptied them again.
    void keep_directories() { made_.clear(); }
    void add(Replacement one) { all_.push_back(std::move(one)); }
    std::vector<Replacement> &all() { return all_; }
    // Whether none has been made in this directory before.
    bool is_first_in(const std::string &directory) { return places_.insert(directory).second; }

  private:
    std::vector<Replacement> all_;
    std::vector<std::string> made_; // directories that were missing
    std::set<std::string> places_;
};

// A process that another one makes as a copy of itself: see plan_copies.hpp.
struct Copy {
    pid_t pid; // requested; 0: any
    uint32_t saved_pid;
    int descriptors; // the first of its own
    int end;         // of its own, and of the copies that it makes in turn
    uint64_t shares; // with the process: CLONE_ bits
};

struct RestartPlan {
    Program program;
    Header header = {};
    std::vector<Fill> fills;
    std::vector<std::string> arguments; // of the execve that makes the fresh process
    std::string exe;
    int exe_fd = -1; // open, and inherited; −1: `exe` is executed by its name
    std::vector<std::string> environment; // what the dynamic linker needs to know
    std::vector<Copy> copies;             // that this process makes
    uint32_t pid = 0;
    uint32_t personality = 0;
    int floor = 0;       // descriptors from here on are Cryo's until the end
    int handed_down = 0; // descriptors of all copies, behind those that each process has
    int first_free() const { return floor + first_free_offset + handed_down; }
    int64_t cut_realtime = 0;
    std::vector<std::string> notices;
    Replacements replacements;
    struct {
        int fd = -1; // of the image, in the process
        uint64_t mappings = 0, pages = 0;
    } lazy;
    std::set<uint32_t> redirected;          // open files replaced at the user's request
    resources::KeptConnections connections; // of the tree, in the first process's plan
    std::vector<Fd> inherited; // open files, at their numbers; to be closed once there is a process
};

// One process or several: the first is the root. A process that needs
// no plan (a zombie, one that only provides a group's id) has none.
struct TreePlan {
    struct Process {
        std::unique_ptr<image::Image> image;
        std::unique_ptr<RestartPlan> plan;
        Newborn kin;          // its relations
        bool stopped = false; // it was stopped, by a signal
        int stop_signal = 0;  // that stops it again
        int family = nobody;  // number of the process that hands a copy's descriptors down to it
        int descriptors = 0;  // the first of those
        std::unique_ptr<Saved> saved; // for a rehearsal
    };
    std::vector<Process> processes;
    std::unique_ptr<IpcObjects> ipc; // null: there are none
    std::string name;                // of the image, for messages
    int64_t cut_realtime = 0;
    size_t planned = 0;         // processes with a plan
    bool for_requester = false; // see RestartOptions
    int then_signal = 0;
    bool rehearse = false;
    bool meets = false; // the processes wait for each other and for us before they resume
    bool undo = false;  // ... and once more when their semaphore undo values are restored
    pid_t *lost = nullptr;
    std::vector<std::string> notices;
    std::vector<std::string> warnings; // of what goes wrong where the program relies on it
    LateSeals seals;
};

// What a process reports on its status descriptor, as it progresses: the restorer's words, and the
// agent's.
using agent::says_alive;
using agent::says_released;
constexpr uint32_t says_ready = 2; // nothing can fail any more but the other processes
// Sent only if the tree has semaphore undo values (SEM_UNDO): its own are restored.
constexpr uint32_t says_undo = 4;
constexpr uint32_t says_complete = 3; // files are cut back; it only waits for the other processes

// CR_EBADARCH: the image is from another machine architecture.
Result<void> check_machine(const image::Header &header);

Result<std::unique_ptr<TreePlan>> plan_restart(const image::Snapshot &snapshot,
                                               const RestartOptions &options);

} // namespace cryo::restore
