// SPDX-License-Identifier: Apache-2.0
//
// The nursery makes the processes of a restart: each with its id, parent, session and process
// group, up to the execve that starts it afresh. A process is made by its own parent-to-be, so
// that the kernel's relations are right without any privilege but that of choosing ids.
//
//     Nursery nursery;
//     const size_t shell = nursery.add({.pid = 412, .session = 0, .exe = "/bin/sh", ...});
//     nursery.add({.parent = shell, .pid = 413, .group = 1, ...});
//     nursery.add({.parent = shell, .pid = 414, .zombie = true, .wait_status = 0x100});
//     Result<std::vector<pid_t>> born = nursery.make();    // all of them, or none
//
// Between its creation and execve a child makes system
// calls only, because the caller may have threads.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "restorer/make_process.hpp"

#include <atomic>
#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::restore {

constexpr int nobody = -1; // as parent, session or group: the caller's own

struct Newborn {
    int parent = nobody;        // number of the process whose child it is
    pid_t pid = 0;              // requested; 0: any
    std::vector<pid_t> threads; // ids that its threads will have: no other process may get them
    // Numbers of the leading processes; its own number if it leads one itself.
    int session = nobody;
    int group = nobody;
    // For a session leader: its terminal, a descriptor of the caller,
    // and the number of the process that leads the foreground group.
    int terminal = -1;
    int foreground = nobody;

    uint64_t shares = 0; // with its parent: CLONE_ bits

    bool zombie = false; // it ends at once, and its parent has not waited for it
    int wait_status = 0;
    // A stand-in only provides the id of a group whose leader is gone, or the parent of
    // a process whose parent is gone, and ends before its own parent's execve.
    bool stand_in = false;
    // Parent of processes that init is to adopt. It lives until leave_orphans().
    bool foster = false;
    // The parent makes it as a copy of itself, after execve: add_copy() tells its pid then. Until
    // then, where the parent is no copy, a child of the parent's keeps the requested pid for it.
    bool is_copy = false;

    // Pidfds to open: each takes the place of a descriptor that the caller keeps for it (keep()).
    struct Pidfd {
        int fd;
        int process; // number
        unsigned flags;
    };
    std::vector<Pidfd> pidfds;
    // Files of /proc to open likewise, about a process that may have any id.
    struct ProcFile {
        int fd;
        int process;      // number
        std::string name; // "stat"; empty: the directory of the process
        unsigned flags;
        uint64_t position;
    };
    std::vector<ProcFile> proc_files;

    std::string exe;
    int exe_fd = -1; // the open program file; −1: executed by its name
    std::vector<std::string> arguments, environment;
    unsigned personality = 0;
    // Descriptors of the caller that become floor, floor + 1, …; −1: none. All
    // others from floor on are closed by the execve, except those passed to keep().
    // A failure to start is written to the one at `report`: a Failure (restorer/plan.hpp).
    std::vector<int> descriptors;
    int floor = 0;
    int report = 0;
};

class Nursery
{
  public:
    Nursery();
    Nursery(const Nursery &) = delete;
    Nursery &operator=(const Nursery &) = delete;
    ~Nursery();

    // `ids` is passed on to the maker.
    void set_maker(MakeProcess maker, const Ids &ids)
    {
        make_ = maker;
        ids_ = ids;
    }
    // The caller's children become its siblings; `lost`: the pid of a process that was made but
    // cannot be used.
    void make_siblings(pid_t *lost) { lost_ = lost; }
    size_t add(Newborn child);
    // A descriptor that all processes inherit under the same number.
    void keep(int fd) { kept_.push_back(fd); }
    // The ids, by number; those of copies are not theirs yet. On failure none of the processes is
    // left.
    Result<std::vector<pid_t>> make();
    void add_copy(size_t number, pid_t pid) { births_[number].pid.store(pid); }
    // The children of fosters are adopted by init, or by the caller's
    // own subreaper. Until then the caller is their subreaper.
    Result<void> leave_orphans();
    // Ends all that were made, and waits for them. The caller must be their subreaper.
    void end_all();

  private:
    // Progress that the processes report to each other while they are made, in shared memory.
    struct Birth {
        std::atomic<int> pid;     // futex; −errno: it could not be made
        std::atomic<int> grouped; // futex; 1: its session and group are set; −errno
    };
    struct Prepared; // argv and envp, as execve wants them

    bool prepare();
    bool is_made(size_t number) const;
    bool is_wished(pid_t pid) const;
    long make_one(size_t number);
    bool descends_from(int number, int ancestor) const;
    void end_left();
    void make_children(int parent, bool before_session);
    void await_zombies(int parent);
    int dismiss_stand_ins(int parent);
    long open_pidfds(const Newborn &own);
    long open_proc_files(const Newborn &own);
    [[noreturn]] void live(size_t number);
    [[noreturn]] void die_as(int wait_status);
    bool leads(size_t number) const { return list_[number].session == static_cast<int>(number); }
    bool goes_first(size_t child, int parent) const;
    std::vector<int> sessions_at_birth() const;
    bool all_descend_from_us() const;
    Result<void> await();
    Error failure(size_t number, const char *what, int error) const;

    std::vector<Newborn> list_;
    std::vector<Prepared> prepared_;
    static constexpr int any_session = -2;
    std::vector<int> born_in_; // the number of a session's leader, nobody or any_session
    std::vector<int> kept_;
    Birth *births_ = nullptr;
    MakeProcess make_ = make_process;
    Ids ids_;
    pid_t *lost_ = nullptr;
    std::vector<Fd> left_; // pidfds of processes that are no longer our descendants
};

} // namespace cryo::restore
