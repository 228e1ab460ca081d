// SPDX-License-Identifier: Apache-2.0
//
// From the request to the moment when all members are stopped: who is in scope, which checkpoint
// has each process's turn, their callbacks, and the processes that callbacks add.
//
//     Gathering gathering(412, options, common);
//     if (Result<void> stopped = gathering.stop_everybody(); !stopped)
//         gathering.give_up(stopped.error().code());
//     ... gathering.members() ...
//
// All processes are asked before the first answer is awaited, and all finish a step before the
// first begins the next, so that their callbacks may wait for one another.
#pragma once

#include "capture/bystanders.hpp"
#include "capture/meeting.hpp"
#include "capture/member.hpp"

#include <set>
#include <unistd.h>

namespace cryo::capture {

class Gathering
{
  public:
    Gathering(pid_t id, const CheckpointOptions &options, Common &common)
        : id_(id), options_(options), common_(common),
          bystanders_(options), scopes_{{options.scope, id}}, terms_(meeting::terms_of(options))
    {}

    Result<void> stop_everybody();
    // True if the members now belong to another checkpoint, which saves them or fails; share() then
    // copies its image to where ours should go.
    bool has_joined() const { return bool(host_); }
    Result<Outcome> share(std::unique_ptr<image::Sink> sink);
    // Reports the outcome to the checkpoints that have joined this one.
    void tell_guests(const Result<Outcome> &done);
    // Tells them to start again.
    void send_guests_away();
    // Waits until the callbacks of all members, which continue after the image, have ended.
    Result<void> callbacks_done();
    // There will be no image: tells the programs, and their callbacks, why.
    void give_up(int why);

    // Parents before their children.
    std::vector<std::unique_ptr<Member>> &members() { return members_; }
    const std::vector<Relation> &zombies() const { return zombies_; }
    // If `d` started this command, adds the SIGCHLD that tells it of our successful end.
    void tell_of_our_end(Description &d) const;
    // When the first member was asked to stop, on the monotonic clock: until then all ran.
    uint64_t begun() const { return begun_; }
    // Why other processes are not among the members.
    const std::vector<std::string> &left_out() const { return left_out_; }
    // Requested as a single process, not as part of a tree or the like.
    bool is_by_itself(pid_t pid) const;
    // All processes in the image, including zombies, and those left out.
    std::set<pid_t> known() const;
    // The requested process, or the first member if that one left itself out.
    pid_t root() const;

  private:
    struct Wanted {
        image::Scope scope;
        pid_t id;
    };
    Result<std::vector<Relation>> everybody();
    Result<std::vector<Relation>> fresh();
    Result<bool> is_left_out(const Relation &relation);
    void add_own_end();
    Result<bool> is_meant_still(const Relation &relation);
    Result<bool> take_turns(const std::vector<Relation> &fresh, std::vector<Turn> &turns);
    Result<void> await_turn(pid_t pid, const std::string &address, Turn turn);
    Result<void> step_back(const std::string &address);
    void begin_anew();
    meeting::Need need() const;
    std::vector<char> first_word() const;
    Result<bool> hear_others();
    Result<bool> answer(Turn::Waiter &waiter, meeting::Packet &packet);
    Result<bool> hear_holder(const Turn &turn, meeting::Packet &packet);
    bool was_begun_by_ours(pid_t pid) const;
    void turn_away();
    static Error turned_away(const Turn &turn);
    Result<bool> move_to(int connection);
    Result<bool> take_in(meeting::Packet &packet, Fd guest);
    void say_joined() const;
    void forget_members();
    void forget_early_looks();
    Result<bool> await_report();
    Result<void> gather();
    Result<bool> ask_fresh();
    Result<void> ask(std::unique_ptr<Member> member);
    std::vector<std::unique_ptr<Member>> find(const std::vector<Relation> &fresh,
                                              std::vector<Turn> turns) const;
    Result<void> hear(size_t number);
    Result<void> await_prepared();
    Result<void> check_silent(size_t number);
    Result<void> check_other(uint64_t since, const std::string &who) const;
    Result<void> check_callbacks(const Member &member, uint64_t since) const;
    bool went_away(const Error &error);
    agent::RequestInfo request() const;

    pid_t id_;
    const CheckpointOptions &options_;
    Common &common_;
    Bystanders bystanders_;
    std::vector<Wanted> scopes_; // the request's own, and those added by callbacks
    std::vector<std::unique_ptr<Member>> members_;
    std::map<pid_t, bool> asked_; // preparing → whether it has answered
    std::set<pid_t> to_stop_;     // prepared, and still running
    std::vector<Relation> zombies_;
    std::set<pid_t> omitted_; // left out
    int gone_ = 0;
    std::vector<std::string> left_out_;
    bool standing_ = false; // some are stopped, or about to be
    bool stepped_back_ = false;
    meeting::Terms terms_;
    meeting::Rank rank_ = {now_ns(), static_cast<uint64_t>(getpid())};
    std::vector<Fd> guests_; // connections of checkpoints whose members we have taken over
    Fd host_;                // the checkpoint that took over our members
    bool same_ = false;      // and it writes the very file that we should
    meeting::Report report_; // received from it
    Fd image_;
    uint64_t begun_ = 0;
};

} // namespace cryo::capture
