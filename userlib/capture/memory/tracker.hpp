// SPDX-License-Identifier: Apache-2.0
//
// Finds the memory of a program that has not changed since an earlier image, so that the next image
// need not read it. Only delta images use this; other programs are not watched.
//
//     std::unique_ptr<Tracker> tracker = Tracker::probe(session, proc);     // it is stopped
//     const bool counts = tracker->token() == token_of_that_image;
//     tracker->arm(mappings, before, counts, token_of_the_new_one);
//     ... the memory is frozen ...
//     tracker->copied(copy);                                                // still stopped
//     Result<std::vector<Run>> clean = tracker->clean();
//
// If anything fails, nothing is known: all pages are read and compared by their digests.
//
// Watching refers to one image, which has the same token as the program's agent. So a failed
// checkpoint does no harm: it leaves a token that no image has.
#pragma once

#include "capture/memory/pages.hpp"
#include "capture/session/session.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace cryo::capture {

using TrackerToken = std::array<uint8_t, 16>; // zero: none

// Names of trackers, as in an image's PAGE_TRACKER.
constexpr std::string_view userfaultfd_name = "userfaultfd";
constexpr std::string_view soft_dirty_name = "soft-dirty";
constexpr std::string_view module_name = "module"; // the same bits, read by the kernel module
constexpr std::string_view hashing_name = "hashing";

class EarlyCopy;
class Frozen;

class Tracker
{
  public:
    Tracker() = default;
    virtual ~Tracker() = default;
    Tracker(const Tracker &) = delete;
    Tracker &operator=(const Tracker &) = delete;

    // The best one that works for this process now; with CRYO_TRACKER in the environment, only the
    // one of that name, or hashing.
    static std::unique_ptr<Tracker> probe(AgentSession &session, const Proc &proc);

    virtual std::string_view name() const = 0;
    // The token of what is watched now.
    virtual const TrackerToken &token() const = 0;
    // The token's address in the program, for EarlyCopy; 0: there is none.
    virtual uint64_t mark() const { return 0; }
    // Combines what was found before the stop with what arm() finds for the time since. False: that
    // is not possible.
    virtual bool add(const EarlyCopy & /*early*/) { return false; }
    // Starts watching these mappings (private, anonymous, ascending). `continues`: findings since
    // they were last watched count. `before`: mappings that are registered with the agent's
    // userfaultfd.
    virtual Result<void> arm(const std::vector<Run> &mappings, const std::vector<Run> &before,
                             bool continues, const TrackerToken &token) = 0;
    // Whether it needs a copy of the process, made by fork in the stop. Then clean() may be called
    // after the program has resumed; otherwise it may not.
    virtual bool needs_copy() const { return false; }
    // The memory is frozen. Called in the stop, before the last call of clean().
    // The copy must exist as long as clean() is called.
    virtual Result<void> copied(Frozen & /*copy*/) { return {}; }
    // The pages not written from the previous watching until now, ascending.
    virtual Result<std::vector<Run>> clean() = 0;
    // The memory written at these places since arm(). Only if it needs no copy.
    virtual Result<std::vector<Run>> written(const std::vector<Run> & /*places*/)
    {
        return std::vector<Run>();
    }
    // Pages that the next image has to read regardless of its clean().
    virtual const std::vector<Run> &unsure() const;
    // The record of arm() about a mapping that was watched before; null for any other.
    struct Seen {
        Run mapping;
        PageMap::Written written;
    };
    virtual const Seen *seen(const Run &mapping) const = 0;
    // Stops all watching.
    virtual void disarm() = 0;
    // The mappings that are watched.
    virtual const std::vector<Run> &watched() const = 0;
};

// Whether CRYO_TRACKER in the environment names this tracker, or is unset.
bool may_use(std::string_view tracker);

// No tracker: every page is hashed.
class Hashing final : public Tracker
{
  public:
    std::string_view name() const override { return hashing_name; }
    const TrackerToken &token() const override { return none_; }
    Result<void> arm(const std::vector<Run> &, const std::vector<Run> &, bool,
                     const TrackerToken &) override
    {
        return {};
    }
    Result<std::vector<Run>> clean() override { return std::vector<Run>(); }
    const Seen *seen(const Run &) const override { return nullptr; }
    void disarm() override {}
    const std::vector<Run> &watched() const override { return nothing_; }

  private:
    TrackerToken none_{};
    std::vector<Run> nothing_;
};

// Whether a device or an io_uring may write to pages without going through the page tables.
bool has_pinned(const Proc &proc);
// The mappings of `smaps`, possibly read before the stop, that are watched by any
// userfaultfd.
std::vector<Run> watched_mappings(std::string_view smaps);
struct Watchers {
    std::vector<Run> ours; // watched by the program's agent
    bool others = false;   // some are watched by something other than the agent
};
Result<Watchers> who_watches(AgentSession &session, const Proc &proc, std::string_view smaps);

} // namespace cryo::capture
