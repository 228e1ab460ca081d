// SPDX-License-Identifier: Apache-2.0
//
// What of a program's memory has not changed since an earlier image, so that the next one need not
// read it. Only delta images ask for that; a program of which there are none is not watched.
//
//     std::unique_ptr<Tracker> tracker = Tracker::probe(session, proc);     // it stands still
//     const bool counts = tracker->token() == token_of_that_image;
//     tracker->arm(mappings, before, counts, token_of_the_new_one);
//     ... the memory is frozen ...
//     tracker->copied(copy);                                                // it still does
//     Result<std::vector<Run>> clean = tracker->clean();
//
// Every failure means that nothing is known: all pages are read and compared by their digests.
//
// What is watched refers to one image, which has the same token as the program's agent. So it does
// not matter what becomes of a checkpoint: one that fails leaves a token that no image has.
#pragma once

#include "capture/pages.hpp"
#include "capture/session.hpp"

#include <array>
#include <memory>
#include <string_view>

namespace cryo::capture {

using TrackerToken = std::array<uint8_t, 16>; // zero: none

// Names of trackers, as in an image's PAGE_TRACKER.
constexpr std::string_view userfaultfd_name = "userfaultfd";
constexpr std::string_view soft_dirty_name = "soft-dirty";
constexpr std::string_view module_name = "module"; // the same bits, told by the kernel module
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

    // The best one that works for this process, here and now; with CRYO_TRACKER in the environment
    // only the one of that name, or hashing.
    static std::unique_ptr<Tracker> probe(AgentSession &session, const Proc &proc);

    virtual std::string_view name() const = 0;
    // Of what is watched now.
    virtual const TrackerToken &token() const = 0;
    // Where the program has it, for EarlyCopy; 0: nowhere.
    virtual uint64_t mark() const { return 0; }
    // What was found before the stop counts together with what arm() will find of the time since.
    // False: it does not.
    virtual bool add(const EarlyCopy & /*early*/) { return false; }
    // From now on these mappings (private, anonymous, ascending) are watched. `continues`: what was
    // found since they were watched last counts. `before`: what is registered with the agent's
    // userfaultfd.
    virtual Result<void> arm(const std::vector<Run> &mappings, const std::vector<Run> &before,
                             bool continues, const TrackerToken &token) = 0;
    // Whether it knows nothing without a copy of the process, made by fork in the stop. Then
    // clean() may wait until the program runs again; else it may not.
    virtual bool needs_copy() const { return false; }
    // The memory is frozen. In the stop, before clean() is asked for the last time.
    // It is there for as long as clean() is asked.
    virtual Result<void> copied(Frozen & /*copy*/) { return {}; }
    // The pages that were not written from the time before until now, ascending.
    virtual Result<std::vector<Run>> clean() = 0;
    // What was written at these places since arm(). Where no copy is needed for that.
    virtual Result<std::vector<Run>> written(const std::vector<Run> & /*places*/)
    {
        return std::vector<Run>();
    }
    // Pages that the next image has to read, whatever clean() says then.
    virtual const std::vector<Run> &unsure() const;
    // What arm() saw of a mapping that was watched before; null of any other.
    struct Seen {
        Run mapping;
        PageMap::Written written;
    };
    virtual const Seen *seen(const Run &mapping) const = 0;
    // Nothing is watched any more.
    virtual void disarm() = 0;
    // The mappings that are.
    virtual const std::vector<Run> &watched() const = 0;
};

// CRYO_TRACKER in the environment names this one, or none.
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

// Pages that a device or a ring of requests may write to past the page tables.
bool has_pinned(const Proc &proc);
// The mappings of `smaps`, which may be from before the stop, that somebody watches by a
// userfaultfd.
std::vector<Run> watched_mappings(std::string_view smaps);
struct Watchers {
    std::vector<Run> ours; // that the program's agent watches
    bool others = false;   // there are some that it does not
};
Result<Watchers> who_watches(AgentSession &session, const Proc &proc, std::string_view smaps);

} // namespace cryo::capture
