// SPDX-License-Identifier: Apache-2.0
//
// Pages that are copied while the program stands still, so that no copy of the process is needed:
// for a delta image of a program that has changed little.
//
//     std::optional<Stage> stage = Stage::make(bytes);
//     stage->provide(stage->room());                        // before the stop; the memory is there
//     if (stage->take(session, runs)) ...                   // it stands still
//     stage->read(address, to);                             // it runs again
#pragma once

#include "capture/delta_plan.hpp"
#include "capture/frozen.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace cryo::capture {

struct Unmap {
    uint64_t size = 0;
    void operator()(char *memory) const;
};

class Stage
{
  public:
    // None where we may not have so much.
    static std::optional<Stage> make(uint64_t bytes);
    // The memory for so many bytes more; false: there is none.
    bool provide(uint64_t bytes);

    uint64_t room() const { return room_ - used_; }
    uint64_t used() const { return used_; }
    // All of them, or an error; each page once.
    Result<void> take(AgentSession &session, const std::vector<Run> &runs);
    // The same, before the stop: where that many bytes may be read to, and the digests of these
    // pages; and that they have been, from there on, one run behind the other. Runs that are put
    // ascend. Empty: there is no room.
    struct Space {
        std::span<char> bytes;
        std::span<image::Digest> digests;
    };
    Space space(uint64_t bytes);
    void put(std::span<const Run> runs, const Space &space);
    // Of all that was taken, only this.
    void keep(const std::vector<Run> &runs);
    // Only what was taken.
    Result<void> read(uint64_t address, std::span<char> to) const;
    // Where that lies in our memory, in a row: empty if it does not.
    Frozen::View view(uint64_t address, uint64_t size) const;

  private:
    struct Piece {
        Run run;
        uint64_t at; // in the file, or in the memory
        bool in_memory;
    };
    Stage(Fd file, uint64_t room) : file_(std::move(file)), room_(room) {}
    const Piece *piece_at(uint64_t address) const;

    Fd file_;                             // what is taken in the stop
    std::unique_ptr<char, Unmap> memory_; // what is put before
    std::vector<image::Digest> digests_;  // of its pages
    uint64_t room_, used_ = 0;            // by both
    uint64_t in_file_ = 0, in_memory_ = 0;
    std::vector<Piece> pieces_; // ascending
};

// Room for what the processes of the plan have probably changed: where that is little, copying it
// is quicker than a copy of the process, and no page has to be copied when it runs on. `most`:
// bytes of one process; none: a tenth of its memory, and 16 MiB at least.
std::map<pid_t, Stage> stages_for(const DeltaPlan &plan, std::optional<uint64_t> most);

class Staged final : public Frozen
{
  public:
    // The pages and guards of all mappings, ascending; those pages that are not in the stage are
    // never read.
    Staged(Stage stage, std::vector<Run> own, std::vector<Run> guards, pid_t pid,
           std::function<void(uint64_t)> moved)
        : stage_(std::move(stage)), own_(std::move(own)), guards_(std::move(guards)), pid_(pid),
          moved_(std::move(moved))
    {}

    Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const override
    {
        return inside(own_, start, end);
    }
    Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const override
    {
        return inside(guards_, start, end);
    }
    Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                      int protection) override;
    View view(uint64_t address, uint64_t size) override;
    Result<void> finish() override { return {}; }
    pid_t pid() const override { return pid_; }

  private:
    Stage stage_;
    std::vector<Run> own_, guards_;
    pid_t pid_;
    std::function<void(uint64_t)> moved_;
};

} // namespace cryo::capture
