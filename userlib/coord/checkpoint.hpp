// SPDX-License-Identifier: Apache-2.0
//
// One checkpoint of a job: prepared at every node, agreed upon in the tree, images taken, snapshot
// committed. Until the commit any step may fail anywhere, and then nothing has changed.
//
//     auto now = std::make_shared<Checkpoint>(1, request, around);
//     Result<void> begun = now->begin();
//     now->hear(member, message);        // what daemons report
//     now->look_at_tree();               // when it has moved on
//
// Any call may be its end, which around.over() is told of: so the caller keeps a reference.
#pragma once

#include "coord/agreement.hpp"
#include "coord/image_options.hpp"
#include "coord/image_reports.hpp"
#include "coord/job_snapshot.hpp"
#include "coord/redundant_level.hpp"
#include "coord/silence.hpp"
#include "coord/standstill.hpp"
#include "coord/watchers.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryo::coord {

// What a checkpoint deals with, and does not own.
struct Surroundings {
    Loop &loop;
    const Job &job;
    Daemon &local;
    Members &members;
    const JobRanks &ranks;
    Watchers &watchers;
    std::function<void()> end_launcher;
    std::function<void()> over; // it has ended; commands are not told yet
};

class Checkpoint : public std::enable_shared_from_this<Checkpoint>
{
  public:
    Checkpoint(uint64_t number, const nlohmann::json &request, Surroundings around);

    Result<void> begin();
    void hear(uint32_t member, const Message &message);
    // Of the daemons below a child of this one; false: it cannot know that.
    bool hear_joined(uint32_t child, const Message &message);
    void rank_left(uint32_t rank);
    // `lost`: why its ranks cannot be reached; "": it had none.
    void member_gone(uint32_t member, const std::string &node, const std::string &lost);
    void launcher_gone();
    void look_at_tree();
    void call_off();

    bool is_preparing() const { return stage_ == Stage::preparing; }
    bool is_held() const { return stage_ == Stage::held; }
    std::string waits_for() const;               // in words
    void serve_program() { by_program_ = true; } // whose call wants it, too

  private:
    using Clock = std::chrono::steady_clock;
    enum class Stage : uint8_t {
        preparing,
        pending,
        running,
        finishing,
        encoding, // it is committed, and its sets are not
        held,
        cancelling,
        over,
    };
    struct Failure {
        std::string error;
        int code = 0;
        Clock::time_point when = {};
    };

    Result<void> choose_delta(cli::CommonOptions &options);
    bool may_count(const cli::CommonOptions &options) const;
    bool is_taking_images() const;
    bool speaks_for(uint32_t member, uint32_t rank);
    bool images_are_due(uint32_t member);
    void prepared(uint32_t member, const Message &message);
    void all_have_answered();
    void tell_missing();
    void image_came(const Message &message);
    bool has_bases(uint32_t rank, const std::vector<int> &needs);
    void add_image(uint32_t rank, ImageReports::Image image, uint64_t stopped_ns);
    std::vector<SnapshotImage> images() const;
    bool hear_alive(uint32_t child, const nlohmann::json &fields);
    bool hear_prepared(uint32_t child, const nlohmann::json &runs);
    bool hear_images(uint32_t child, const nlohmann::json &fields);
    bool each_rank(uint32_t child, const nlohmann::json &runs,
                   const std::function<void(uint32_t)> &call);
    void image_on_node(uint32_t rank);
    void images_grow(uint32_t member, const Message &message);
    void look_at_images();
    void commit();
    void committed(const Result<void> &done);
    void make_redundant();
    void encoded(const Result<void> &done);
    void established();
    void lacks_sets(const Error &why);
    Message good_end();
    void watch_members();
    void ask_members();
    bool look_at_members();
    void give_up(std::string error, int code);
    void end();

    Surroundings around_;
    uint64_t number_;
    nlohmann::json request_;
    Stage stage_ = Stage::preparing;
    std::set<uint32_t> awaited_; // members: prepared, or idle
    uint64_t patience_ = 0;      // timer
    bool by_program_ = false;
    bool job_ended_ = false;
    bool is_counted_ = false;    // the metadata of the snapshot have no lines of each rank
    bool told_of_nodes_ = false; // that all images are there, on their nodes at least
    Failure failure_;
    ImageReports reports_;
    uint64_t generation_; // of the tree, when it began
    Agreement agreement_;
    Silence silence_;
    Standstill standstill_;
    RedundantLevel redundant_;
    std::string resumed_;       // why held ranks may have gone on while it was encoding
    bool is_redundant_ = false; // that level is complete, and the metadata say so
    JobSnapshot snapshot_;
};

} // namespace cryo::coord
