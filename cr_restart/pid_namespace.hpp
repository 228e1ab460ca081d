// SPDX-License-Identifier: Apache-2.0
//
// A pid namespace for the restored processes, in which every id but 1 is free
// and can be chosen: by root directly, by other users within a user namespace
// that maps only themselves. cr_restart executes itself again as its first
// process; that one restores, and reaps all processes that are left.
//
//     if (std::optional<Inside> inside = Inside::find()) {   // we are the first process
//         Result<Alive> alive = ...;
//         inside->stay(*alive, "user");                      // does not return
//     }
//     Result<Outside> outside = Outside::make(argv, false, false);
//     Result<Alive> alive = outside->await_alive(listener);  // its pid is the one seen from here
//     outside->let_stay();
//     Result<End> end = outside->await_end();
#pragma once

#include "backend/backend.hpp"
#include "base/fd.hpp"
#include "base/trust.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

// Reports of the first process while it works.
struct Listener {
    std::function<void(std::string_view)> remark, phase;
    std::function<void(uint64_t, uint64_t)> progress;
    std::function<void()> begins;
};

struct End {
    int wait_status = 0;
    int failed_callback = 0;
};

class Outside
{
  public:
    // Starts this command again, with these words. `rehearse`: nothing in there may reach the
    // outside, so it has a network of its own, too. `by_default`: the user has not asked for it.
    static cryo::Result<Outside> make(char **argv, bool rehearse, bool by_default);

    cryo::Result<cryo::backend::Alive> await_alive(const Listener &listener);
    // For a rehearsal: its result, when all processes have ended again.
    cryo::Result<cryo::backend::Alive> await_rehearsed(const Listener &listener);
    // Until this call, they end with us.
    void let_stay() const;
    cryo::Result<End> await_end();
    const std::string &backend() const { return backend_; }
    pid_t inner_pid() const { return inner_pid_; } // as the program itself sees it

  private:
    Outside(cryo::Fd socket, pid_t first) : socket_(std::move(socket)), first_(first) {}
    cryo::Error lost();

    cryo::Fd socket_;
    pid_t first_;
    std::string backend_;
    pid_t inner_pid_ = 0;
};

class Inside
{
  public:
    static std::optional<Inside> find();

    Listener listener() const;
    // Asks outside who owns a file.
    cryo::Trust::Ask asker() const;
    void fail(const cryo::Error &error) const;
    // Reports the result. Processes that are left end when this one does.
    void tell(const cryo::backend::Alive &alive, std::string_view backend) const;
    // Keeps nothing open, and ends when there is no process left.
    [[noreturn]] void stay(const cryo::backend::Alive &alive, std::string_view backend);

  private:
    explicit Inside(cryo::Fd socket) : socket_(std::move(socket)) {}

    cryo::Fd socket_;
};
