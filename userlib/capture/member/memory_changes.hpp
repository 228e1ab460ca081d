// SPDX-License-Identifier: Apache-2.0
//
// Which memory of a member is known to be unchanged since an earlier image. No failure here is an
// error: all pages are read instead.
//
//     MemoryChanges changes(description, process, common);
//     changes.copy_early(others); changes.provide_stage();              // while it runs
//     std::unique_ptr<Tracker> tracker = changes.begin_watching();      // while it stands still
//     ... its memory is frozen ...
//     changes.watch_frozen(std::move(tracker), frozen);
//     delta.use(changes.found());                                       // when it runs again
#pragma once

#include "capture/member/member_process.hpp"
#include "capture/memory/early_copy.hpp"
#include "capture/memory/frozen.hpp"
#include "capture/memory/page_delta.hpp"
#include "capture/memory/tracker.hpp"
#include "capture/process/describe.hpp"

#include <memory>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class MemoryChanges
{
  public:
    MemoryChanges(Description &d, MemberProcess &process, Common &common)
        : d_(d), process_(process), common_(common)
    {}
    MemoryChanges(const MemoryChanges &) = delete;
    MemoryChanges &operator=(const MemoryChanges &) = delete;

    // After the early look, while it still runs: copies what it has changed, if that will probably
    // help. `others`: processes saved with it, running too.
    void copy_early(const std::vector<pid_t> &others);
    // Allocates memory for what will have to be copied in the stop.
    void provide_stage();

    // Null: changes are found by hashing only.
    std::unique_ptr<Tracker> begin_watching();
    bool is_watched() const { return is_watched_; } // or watching was tried
    // With a tracker that has begun: the program itself will be read, and stays stopped meanwhile.
    void look_while_it_stands(Tracker &tracker);
    // With a tracker that has begun: what will be read is `frozen`, and the program goes on.
    void watch_frozen(std::unique_ptr<Tracker> tracker, Frozen &frozen);
    // That copy will not be read: the facts that only it could show stay unknown.
    void forget_copy();

    // The result so far; more may be found when the program has resumed.
    const Unchanged &unchanged() const { return unchanged_; }
    void set_unchanged(std::vector<Run> runs) { unchanged_.runs = std::move(runs); }
    // From what was seen when the tracker was armed: the agent may have written more since.
    std::vector<Run> parts_seen(const Tracker &tracker,
                                std::vector<Run> PageMap::Written::*part) const;
    // All that can be found, when the program has resumed.
    const Unchanged &found();
    // For audits nothing is staged: compares the early copies with the program's pages.
    Result<void> audit_early_copy(Frozen &frozen);
    uint64_t audited_pages() const { return audited_pages_; } // by audit_early_copy()

  private:
    std::vector<Run> watchable() const;
    void stop_watching(Tracker &tracker);
    void look_for_changes(Tracker &tracker);
    void leave_out_written(std::vector<Run> &runs) const;

    Description &d_;
    MemberProcess &process_;
    Common &common_;
    EarlyCopy early_copy_;
    std::unique_ptr<Tracker> tracker_; // to be asked after the program has resumed
    Unchanged unchanged_;
    bool is_watched_ = false;
    std::vector<Run> unsure_;        // pages to read regardless of the tracker
    std::vector<Run> audited_early_; // copied before the stop, to be compared
    uint64_t audited_pages_ = 0;
};

} // namespace cryo::capture
