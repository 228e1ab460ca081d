// SPDX-License-Identifier: Apache-2.0
//
// The tracker for kernels without WP_ASYNC: /proc/PID/clear_refs and the soft-dirty bits of
// /proc/PID/pagemap. docs/delta.md explains what these miss, and how that is detected.
#pragma once

#include "capture/memory/tracker.hpp"

#include <optional>

namespace cryo::capture {

// The mappings of `smaps`, ascending, with the number of their anonymous and swapped pages.
struct CountedMapping {
    Run mapping;
    uint64_t pages;
};
std::vector<CountedMapping> counted_mappings(std::string_view smaps);

class SoftDirty final : public Tracker
{
  public:
    // Null if the bits cannot be relied on. The process must be stopped.
    static std::unique_ptr<Tracker> probe(AgentSession &session, const Proc &proc);

    // Whether the module can be used is known only once there is a copy.
    std::string_view name() const override { return is_scanned_ ? module_name : soft_dirty_name; }
    const TrackerToken &token() const override { return token_; }
    const std::vector<Run> &watched() const override { return watched_; }
    const std::vector<Run> &unsure() const override { return unsure_; }
    bool needs_copy() const override { return true; }
    const Seen *seen(const Run &) const override { return nullptr; }

    Result<void> arm(const std::vector<Run> &mappings, const std::vector<Run> &before,
                     bool continues, const TrackerToken &token) override;
    Result<void> copied(Frozen &copy) override;
    Result<std::vector<Run>> clean() override;
    void disarm() override;

  private:
    SoftDirty(AgentSession &session, TrackerLink link, PageMap map, Fd clear)
        : session_(session), uffd_(std::move(link.fd)), marks_(link.marks), token_(link.token),
          map_(std::move(map)), clear_(std::move(clear))
    {}
    Result<void> find_unsure();
    Result<std::vector<Run>> clean_of(const std::vector<Run> &mappings) const;
    Result<std::vector<Run>> scanned(const std::vector<Run> &mappings) const;

    AgentSession &session_;
    Fd uffd_;
    uint64_t marks_;
    TrackerToken token_;
    TrackerToken next_{};
    PageMap map_;
    Fd clear_;
    Frozen *frozen_ = nullptr; // the copy
    bool is_scanned_ = false;
    std::optional<PageMap> copys_map_;
    std::vector<Run> watched_;
    std::vector<Run> known_; // those that were watched before
    std::vector<Run> unsure_;
};

} // namespace cryo::capture
