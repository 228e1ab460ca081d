// SPDX-License-Identifier: Apache-2.0
//
// Pages that are copied while the program is stopped, which makes a copy of the process
// unnecessary: for a delta image of a program that has changed little.
//
//     std::optional<Stage> stage = Stage::make(bytes);
//     stage->provide(stage->room());                        // allocates, before the stop
//     if (stage->take(session, runs)) ...                   // while it is stopped
//     stage->read(address, to);                             // when it runs again
#pragma once

#include "capture/memory/delta_plan.hpp"
#include "capture/memory/frozen.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

namespace cryo::capture {

class AgentSession;

struct Unmap {
    uint64_t size = 0;
    void operator()(char *memory) const;
};

class Stage
{
  public:
    // None if so much memory is not available.
    static std::optional<Stage> make(uint64_t bytes);
    // Allocates memory for that many more bytes; false: there is none.
    bool provide(uint64_t bytes);

    uint64_t room() const { return room_ - used_; }
    uint64_t used() const { return used_; }
    // Copies all runs, or fails; each page may be taken once.
    Result<void> take(AgentSession &session, const std::vector<Run> &runs);
    // As take(), before the stop: space() returns where to read that many bytes and where to store
    // the digests of their pages; put() records that runs have been read there, one behind the
    // other. Runs must be put in ascending order. Empty: there is no room.
    struct Space {
        std::span<char> bytes;
        std::span<image::Digest> digests;
    };
    Space space(uint64_t bytes);
    void put(std::span<const Run> runs, const Space &space);
    // Drops everything that was taken except these runs.
    void keep(const std::vector<Run> &runs);
    // Only memory that was taken.
    Result<void> read(uint64_t address, std::span<char> to) const;
    // The place of these bytes in our memory, if they are there in one piece; otherwise empty.
    Frozen::View view(uint64_t address, uint64_t size) const;

  private:
    struct Piece {
        Run run;
        uint64_t at; // in the file, or in the memory
        bool in_memory;
    };
    Stage(Fd file, uint64_t room) : file_(std::move(file)), room_(room) {}
    const Piece *piece_at(uint64_t address) const;

    Fd file_;                             // pages taken in the stop
    std::unique_ptr<char, Unmap> memory_; // pages put before the stop
    std::vector<image::Digest> digests_;  // of its pages
    uint64_t room_, used_ = 0;            // for both together
    uint64_t in_file_ = 0, in_memory_ = 0;
    std::vector<Piece> pieces_; // ascending
};

// Stages for the processes whose changes are probably small: copying those is quicker than copying
// the process, and no page must be copied when it runs on. `most`: bytes for one process; unset: a
// tenth of its memory, but at least 16 MiB.
std::map<pid_t, Stage> stages_for(const DeltaPlan &plan, std::optional<uint64_t> most);

class Staged final : public Frozen
{
  public:
    // The pages and guards of all mappings, ascending; pages that are not in the stage are never
    // read.
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
