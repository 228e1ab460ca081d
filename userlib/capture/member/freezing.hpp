// SPDX-License-Identifier: Apache-2.0
//
// Freezes a member's memory: by which method, and from where it is read afterwards.
//
//     Freezing freezing(description, process, common);
//     freezing.begin(Snapshot::automatic, true, -1);                    // while it stands still
//     if (*freezing.await(Snapshot::automatic) == Method::stop) {
//         freezing.thaw();
//         freezing.freeze_itself(-1);                                   // and it must stay stopped
//     }
//     ... freezing.frozen() is read ...
#pragma once

#include "capture/member/member_process.hpp"
#include "capture/member/memory_changes.hpp"
#include "capture/member/staging.hpp"
#include "capture/memory/frozen.hpp"
#include "capture/memory/method.hpp"
#include "capture/process/describe.hpp"
#include "capture/process/options.hpp"

#include <memory>
#include <string>

namespace cryo::capture {

// Memory that the program excluded from fork by madvise, so that a copy lacks it.
bool fork_leaves_out(const image::Region &region);
// Private memory that a copy of the process has.
bool is_frozen(const image::Region &region);
// What a copy of the process serves, or the process itself.
Result<std::unique_ptr<Frozen>> open_served(Result<PageSource> source, const Common &common);

class Freezing
{
  public:
    Freezing(Description &d, MemberProcess &process, Common &common)
        : d_(d), process_(process), common_(common), changes_(d, process, common),
          staging_(d, process, changes_, common)
    {}
    Freezing(const Freezing &) = delete;
    Freezing &operator=(const Freezing &) = delete;

    MemoryChanges &changes() { return changes_; }
    const MemoryChanges &changes() const { return changes_; }
    const Staging &staging() const { return staging_; }

    // Whether fork leaves out some of its memory.
    bool has_unforkable() const;
    // The program, or the kernel on its behalf, would notice a copy.
    bool cannot_be_copied() const;
    // Freezes its memory as it is now, so that it may resume. If the result is Method::stop,
    // because that is best or nothing else works, it must be thawed and freeze itself instead. Two
    // steps, so that several members copy at the same time. `alone`: there is no other member.
    // `device`: of the kernel module, or −1.
    Result<void> begin(Snapshot wanted, bool alone, int device);
    Result<Method> await(Snapshot wanted);
    void thaw();
    // Before freeze_itself() and early_look_held(): finds what it has changed.
    void watch_itself();
    // The process serves its own memory, and stays stopped while that is read.
    Result<void> freeze_itself(int device);
    // Abandons all reading, even in progress.
    void give_up() { frozen_.reset(); }

    Frozen &frozen() { return *frozen_; }
    Method method() const { return method_; }
    // Whether the changed pages were copied in the stop, so that nothing else need be read.
    bool is_staged() const { return method_ == Method::staged; }
    // Whether what was seen before the stop was still true in the stop; asked once it is frozen.
    Result<bool> early_look_held() const;
    // How it was frozen and why, for the user. `is_placed`: its memory was copied into the image
    // while it stood still.
    std::string about(bool is_placed) const;

  private:
    Description &d_;
    MemberProcess &process_;
    Common &common_;
    std::unique_ptr<Frozen> frozen_;
    MemoryChanges changes_;
    Staging staging_;
    std::unique_ptr<Tracker> armed_; // until it is frozen
    Method method_ = Method::stop;
    Costs costs_;     // as estimated
    std::string why_; // why it is not the preferred method
};

} // namespace cryo::capture
