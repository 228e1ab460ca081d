// SPDX-License-Identifier: Apache-2.0
//
// What a program has changed since an image, protected again and copied while it still runs, so
// that in the stop only that has to be which it has changed since (docs/delta.md).
//
//     const EarlyCopy early = EarlyCopy::of(proc, smaps, base, stage);   // it runs
//     early.is_of(link)                                           // it stands still: it counts
//     early.add_to(mapping, written);                             // what PageMap has found of it
//
// From the first page that is protected on, nothing in the program says when that was, but this
// object: the token in its agent is one that no image has. So whatever ends the checkpoint before
// there is an image, the next one reads everything.
#pragma once

#include "capture/delta_plan.hpp"
#include "capture/pages.hpp"
#include "capture/session.hpp"
#include "capture/stage.hpp"

#include <optional>
#include <span>

namespace cryo::capture {

class EarlyCopy
{
  public:
    // Nothing was done.
    EarlyCopy() = default;
    // Of a program that runs; nothing where little has changed, or where we may not look into it.
    // `smaps`: of a moment ago. `others`: that are saved with it, and run as well.
    static EarlyCopy of(const Proc &proc, std::string_view smaps, const DeltaPlan::Base &base,
                        Stage &stage, const std::vector<pid_t> &others);

    // Bytes that had changed by then, but for those that were copied; none: that is not known.
    std::optional<uint64_t> uncopied() const { return uncopied_; }

    // Whether what the agent watches is what was left to it here, and nobody else has changed that.
    bool is_of(const TrackerLink &link) const;
    // Since which image what was found here has changed.
    bool is_since_previous() const { return of_previous_; }
    // The program stands still: whether what was copied may be used.
    void hold(const Proc &proc);
    // `written`: of this mapping since then. Now it is since that image.
    void add_to(const Run &mapping, PageMap::Written &written) const;

  private:
    bool begin(const Proc &proc, const DeltaPlan::Base &base);
    void protect(const Proc &proc, const std::vector<Run> &mappings);
    void copy(const Proc &proc, Stage &stage);
    bool read(pid_t pid, std::span<const Run> runs, std::span<char> to) const;

    Fd memory_; // /proc/PID/mem
    uint64_t mark_ = 0, changes_ = 0;
    std::array<uint8_t, 16> token_{}; // zero: nothing was begun
    bool of_previous_ = false;
    std::vector<Run> changed_; // ascending, as the others: protected here, or perhaps
    std::vector<Run> own_;     // of these, those that had contents
    std::vector<Run> copied_;  // of these again
    std::optional<uint64_t> uncopied_;
    std::optional<uint64_t> reads_;
    uint64_t agents_reads_ = 0; // among them
    uint64_t waiting_reads_ = 0;
    bool held_ = false;
};

} // namespace cryo::capture
