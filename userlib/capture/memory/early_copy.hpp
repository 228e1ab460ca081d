// SPDX-License-Identifier: Apache-2.0
//
// Before the stop: protects again and copies the pages that a program has changed since an image,
// so that the stop only has to handle pages changed after that (docs/delta.md).
//
//     const EarlyCopy early = EarlyCopy::of(proc, smaps, base, stage);   // while it runs
//     early.is_of(link)                                           // stopped: whether it counts
//     early.add_to(mapping, written);                             // what PageMap has found
//
// Once the first page is protected, only this object knows when that was: the agent's token is
// replaced by one that no image has. So if the checkpoint ends without an image, the next one reads
// everything.
#pragma once

#include "base/remote_address.hpp"
#include "capture/memory/delta_plan.hpp"
#include "capture/memory/pages.hpp"
#include "capture/memory/stage.hpp"
#include "capture/session/agent_memory.hpp"

#include <optional>
#include <span>

namespace cryo::capture {

class EarlyCopy
{
  public:
    // Empty: nothing was copied.
    EarlyCopy() = default;
    // Of a running program; empty if little has changed or its memory is not accessible. `smaps`:
    // read a moment ago. `others`: processes saved with it, running as well.
    static EarlyCopy of(const Proc &proc, std::string_view smaps, const DeltaPlan::Base &base,
                        Stage &stage, const std::vector<pid_t> &others);

    // Bytes that had changed by then, minus those that were copied; none: unknown.
    std::optional<uint64_t> uncopied() const { return uncopied_; }

    // Whether the agent still watches what this object left it, with no change by another process.
    bool is_of(const TrackerLink &link) const;
    // Whether the changes are counted from the previous image instead of the base.
    bool is_since_previous() const { return of_previous_; }
    // With the program stopped: decides whether the copied pages may be used.
    void hold(const Proc &proc);
    // `written`: changes of this mapping since then. Extends it to the changes since the image.
    void add_to(const Run &mapping, PageMap::Written &written) const;

  private:
    bool begin(const Proc &proc, const DeltaPlan::Base &base);
    void protect(const Proc &proc, const std::vector<Run> &mappings);
    void copy(const Proc &proc, Stage &stage);
    bool read(pid_t pid, std::span<const Run> runs, std::span<char> to) const;

    Fd memory_;          // /proc/PID/mem
    RemoteAddress mark_; // of the agent's TrackerMark
    uint64_t changes_ = 0;
    std::array<uint8_t, 16> token_{}; // zero: begin() was not called, or failed
    bool of_previous_ = false;
    std::vector<Run> changed_; // ascending, as the others: protected here, or possibly so
    std::vector<Run> own_;     // those of them that had contents
    std::vector<Run> copied_;  // those of own_ that were copied
    std::optional<uint64_t> uncopied_;
    std::optional<uint64_t> reads_;
    uint64_t agents_reads_ = 0; // the part of reads_ made by the agent
    uint64_t waiting_reads_ = 0;
    bool held_ = false;
};

} // namespace cryo::capture
