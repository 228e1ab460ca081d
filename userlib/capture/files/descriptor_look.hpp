// SPDX-License-Identifier: Apache-2.0
//
// One look at the descriptors of stopped processes: which there are, which of them share an open
// file, and the open files themselves, which the processes' agents pass on.
//
//     DescriptorLook look(holders, zombies);
//     if (Result<void> taken = look.take(); !taken)
//         return taken;
//     for (const resources::Seen &one : look.descriptors())
//         ... look.open_file_of(one) ...          // of several that share it the same one
//
// Must not live longer than the processes are stopped: it holds their open files.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/files/early_descriptors.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "resources/paths.hpp"
#include "resources/seen.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <sys/types.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace cryo::capture {

class AgentSession;

// A process whose descriptors are read, except those in `ours`.
struct Holder {
    const Proc &proc;
    Problems &problems;
    AgentSession &session;
    std::set<int> ours;
    EarlyDescriptors *early = nullptr; // null: everything is read now
};

class DescriptorLook
{
  public:
    using Seen = resources::Seen;

    // `zombies`: the members that have ended.
    DescriptorLook(std::vector<Holder> holders, std::set<pid_t> zombies)
        : holders_(std::move(holders)), zombies_(std::move(zombies))
    {}
    DescriptorLook(const DescriptorLook &) = delete;
    DescriptorLook &operator=(const DescriptorLook &) = delete;

    Result<void> take();
    // An open file that waits in a message, in this socket: its index in open_files(). It is
    // examined as if we were a process that has it, because the queue that was peeked at has given
    // us a duplicate (SCM_RIGHTS).
    Result<size_t> add(Fd fd, const Seen &socket);

    // One for each descriptor, those of the first holder first; without Seen::shared and kind.
    const std::vector<Seen> &descriptors() const { return descriptors_; }
    // One for each open file.
    std::vector<Seen> &open_files() { return open_files_; }
    const std::vector<Seen> &open_files() const { return open_files_; }
    const Seen &open_file_of(const Seen &descriptor) const; // of descriptors()
    // What the number leads to in this holder; null: nothing.
    const Seen *at(size_t holder, int fd) const;
    // The lowest number of an open file in its holder.
    int first_number(const Seen &open_file) const;
    // Open files that one of the processes has as descriptor 0, 1 or 2.
    std::set<const Seen *> standard() const;

    const std::vector<Holder> &holders() const { return holders_; }
    const Holder &holder_of(const Seen &seen) const { return holders_[seen.holder]; }
    // In which /proc shows it; of what only travels in a message, this process.
    const Proc &proc_of(const Seen &seen) const
    {
        return seen.passed_in < 0 ? holder_of(seen).proc : own_;
    }
    std::set<pid_t> members(bool with_zombies) const;

  private:
    Result<void> look();
    Result<std::vector<int>> numbers(const Holder &holder, bool early) const;
    bool is_all(const Holder &holder, size_t found) const;
    Result<void> list();
    Result<void> look_at(const std::vector<std::vector<int>> &numbers);
    Result<void> group();
    Result<void> group_by_trial();
    Result<std::map<size_t, Fd>> doubtful();
    void make_room();
    Result<void> share();
    Result<void> find_link(Seen &seen, resources::NamesLook &names) const;

    std::vector<Holder> holders_;
    std::set<pid_t> zombies_;
    const Proc own_{getpid()};
    bool deceived_ = false; // by an early look
    std::vector<Seen> descriptors_, open_files_;
    std::vector<uint32_t> group_of_; // of each descriptor the index in open_files_
};

} // namespace cryo::capture
