// SPDX-License-Identifier: Apache-2.0
//
// From the request to the moment when everybody stands still: who is meant, whose turn it is, their
// callbacks, and the processes that these take in.
//
//     Gathering gathering(412, options, common);
//     if (Result<void> stopped = gathering.stop_everybody(); !stopped)
//         gathering.give_up(stopped.error().code());
//     ... gathering.members() ...
//
// All are asked before the first answer is waited for, and all of a step are through with it before
// the first begins the next: so their callbacks may wait for one another.
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
    // Then all of them are another checkpoint's, which has saved them, or not; and this brings its
    // image to where ours should go.
    bool has_joined() const { return bool(host_); }
    Result<Outcome> share(std::unique_ptr<image::Sink> sink);
    // The other way round: those that have joined this one.
    void tell_guests(const Result<Outcome> &done);
    // They begin anew.
    void send_guests_away();
    // Until the callbacks of all, which go on after the image, have ended.
    Result<void> callbacks_done();
    // There will be no image: the programs, and their callbacks, are told why.
    void give_up(int why);

    // Parents before their children.
    std::vector<std::unique_ptr<Member>> &members() { return members_; }
    const std::vector<Relation> &zombies() const { return zombies_; }
    // Whoever has started this command, and is saved with it, hears that it has ended well.
    void tell_of_our_end(Description &d) const;
    // When the first of them was asked to stop, on the monotonic clock: until then all ran.
    uint64_t begun() const { return begun_; }
    // Why others are not among them.
    const std::vector<std::string> &left_out() const { return left_out_; }
    // Asked for as a process, not as one of a tree or the like.
    bool is_by_itself(pid_t pid) const;
    // All who are in the image, those that have ended included, and who were left out.
    std::set<pid_t> known() const;
    // The process that was asked for; another one where that left itself out.
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
    std::vector<Wanted> scopes_; // the request's own, and what callbacks have added
    std::vector<std::unique_ptr<Member>> members_;
    std::map<pid_t, bool> asked_; // to prepare, and not through with it; whether it has answered
    std::set<pid_t> to_stop_;     // prepared, and running still
    std::vector<Relation> zombies_;
    std::set<pid_t> omitted_; // left out
    int gone_ = 0;
    std::vector<std::string> left_out_;
    bool standing_ = false; // some stand still, or are about to
    bool stepped_back_ = false;
    meeting::Terms terms_;
    meeting::Rank rank_ = {now_ns(), static_cast<uint64_t>(getpid())};
    std::vector<Fd> guests_; // checkpoints whose members are ours now
    Fd host_;                // the one that has our members
    bool same_ = false;      // and writes the very file that we should
    meeting::Report report_; // of it
    Fd image_;
    uint64_t begun_ = 0;
};

} // namespace cryo::capture
