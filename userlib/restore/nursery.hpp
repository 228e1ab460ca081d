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
// What a child does between its birth and execve uses system calls only: the caller may have
// threads.
#pragma once

#include "base/result.hpp"

#include <atomic>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::restore {

constexpr int nobody = -1; // as parent, session or group: the caller's own

struct Newborn {
    int parent = nobody; // number of the process whose child it is; a smaller one than its own
    pid_t pid = 0;       // wished for; 0: any
    // Numbers of the processes that lead them; its own number: it leads one itself.
    int session = nobody;
    int group = nobody;
    // Of the leader of a session: its terminal, a descriptor of the caller, and the number of the
    // process that leads the foreground group.
    int terminal = -1;
    int foreground = nobody;

    bool zombie = false; // it ends at once, and its parent has not waited for it
    int wait_status = 0;
    // It only lends its id to a group whose leader is gone, and is gone itself before execve.
    bool stand_in = false;

    std::string exe;
    std::vector<std::string> arguments, environment;
    unsigned personality = 0;
    // These descriptors of the caller become floor, floor + 1, …; −1: none. All others from floor
    // on end with the execve, but for those that are kept for all. The one at `report` is told of a
    // failure to start: a Failure (plan.hpp).
    std::vector<int> descriptors;
    int floor = 0;
    int report = 0;
};

// Makes a process with this id, as fork does: its pid in the parent, 0 in the child, or −errno.
// With `lost` it is a sibling of the caller's, as whoever asked for it wants to have it: one that
// was made in vain is left there. May only use system calls.
using MakeProcess = long (*)(pid_t wished, int device, pid_t *lost);
long make_process(pid_t wished, int device, pid_t *lost); // by clone3

class Nursery
{
  public:
    Nursery();
    Nursery(const Nursery &) = delete;
    Nursery &operator=(const Nursery &) = delete;
    ~Nursery();

    // `device`: passed on to `make`.
    void set_maker(MakeProcess maker, int device)
    {
        make_ = maker;
        device_ = device;
    }
    // The caller's children become its siblings; `lost`: the pid of one that was made in vain.
    void make_siblings(pid_t *lost) { lost_ = lost; }
    size_t add(Newborn child);
    // A descriptor that all processes inherit, with its number.
    void keep(int fd) { kept_.push_back(fd); }
    // The ids, by number. On failure none of the processes is left.
    Result<std::vector<pid_t>> make();
    // Ends all that were made, and waits for them. The caller must be their subreaper.
    void end_all();

  private:
    // What the processes tell each other while they come into being: in memory they share.
    struct Birth {
        std::atomic<int> pid;     // futex; −errno: it could not be made
        std::atomic<int> grouped; // futex; 1: its session and group are set; −errno
    };
    struct Prepared; // argv and envp, as execve wants them

    bool prepare();
    void make_children(int parent, bool before_session);
    void await_zombies(int parent);
    int dismiss_stand_ins(int parent);
    [[noreturn]] void live(size_t number);
    [[noreturn]] void die_as(int wait_status);
    bool goes_first(const Newborn &child, int parent) const;
    int session_of(int number) const { return number == nobody ? nobody : list_[number].session; }
    Result<void> await();
    Error failure(size_t number, const char *what, int error) const;

    std::vector<Newborn> list_;
    std::vector<Prepared> prepared_;
    std::vector<int> kept_;
    Birth *births_ = nullptr;
    MakeProcess make_ = make_process;
    int device_ = -1;
    pid_t *lost_ = nullptr;
};

} // namespace cryo::restore
