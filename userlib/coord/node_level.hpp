// SPDX-License-Identifier: Apache-2.0
//
// A daemon's part in the level of the nodes' own directories (docs/stores.md). What goes wrong with
// it is told, and stops no checkpoint that can do without.
//
//     NodeLevel level(loop, job.id, node, [] { ... });   // called when older levels are gone
//     level.begin(wanted);                               // a checkpoint is prepared
//     const std::string directory = level.make(rank);    // "": the image goes to the snapshot
//     level.end(committed, redundant);
#pragma once

#include "coord/aside.hpp"
#include "coord/imager.hpp"
#include "coord/local_level.hpp"
#include "coord/message.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cryo::coord {

class NodeLevel
{
  public:
    NodeLevel(Loop &loop, std::string job, std::string node, std::function<void()> retired);

    // null: the checkpoint has no such level. EEXIST: the directory must be this node's alone, and
    // is not.
    Result<void> begin(const nlohmann::json &wanted);
    std::string make(uint32_t rank);                        // where its image is written first
    const LocalLevel *level() const;                        // null: there is none
    uint64_t rate() const { return now_ ? now_->rate : 0; } // of all copies, in bytes a second
    std::string take_trouble();                             // "": none, or it was told
    void blame(const Taken &taken);                         // an image has failed there
    // `redundant`: its sets are complete. Else parity of an encoding that failed elsewhere goes.
    void end(bool committed, bool redundant);
    // Older levels are being removed, which may take long.
    bool is_retiring() const { return retiring_ != nullptr; }

  private:
    struct Now { // of the checkpoint under way
        std::string base;
        unsigned keep = 1;
        uint64_t rate = 0;
        uint64_t room = 0;               // on its disk, when it was begun
        std::optional<LocalLevel> level; // none: images go straight to the snapshot's directory
        std::string trouble;             // why; "": it was told
    };
    struct Blame {
        std::string why;
        std::string base;
        uint64_t room = 0;
        bool fresh = false; // no checkpoint has done without yet
    };
    std::string why_not(const Now &now);

    Loop &loop_;
    std::string job_;
    std::string node_;
    std::function<void()> retired_;
    std::optional<Now> now_;
    std::optional<LocalLevel> last_;  // of the last snapshot; stays as long as this daemon
    Blame blame_;                     // of the disk, if images have failed there
    std::unique_ptr<Aside> retiring_; // removes older levels
};

} // namespace cryo::coord
