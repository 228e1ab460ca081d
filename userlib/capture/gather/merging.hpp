// SPDX-License-Identifier: Apache-2.0
//
// Merging two checkpoints: the members of the younger one move to the older one, which saves all of
// them together and reports the outcome. meeting.hpp describes the protocol.
//
//     Merging merging(412, options, common, in_scope, roster);
//     merging.hear_others();                          // repeatedly: those that wait for our turns
//     merging.hear_holder(turn, packet);              // while we wait for another's turn
//     if (merging.has_joined())
//         ... merging.await_report(), merging.share(sink) ...
//     merging.tell_guests(done);                      // whose members have come to us
#pragma once

#include "capture/gather/in_scope.hpp"
#include "capture/gather/meeting.hpp"
#include "capture/gather/roster.hpp"
#include "capture/process/options.hpp"
#include "capture/session/turn.hpp"
#include "image/sink.hpp"

#include <memory>
#include <string>
#include <unistd.h>
#include <vector>

namespace cryo::capture {

class Merging
{
  public:
    Merging(pid_t id, const CheckpointOptions &options, Common &common, InScope &in_scope,
            Roster &roster)
        : id_(id), options_(options), common_(common), in_scope_(in_scope), roster_(roster),
          terms_(meeting::terms_of(options))
    {}
    Merging(const Merging &) = delete;
    Merging &operator=(const Merging &) = delete;

    // True if the members now belong to another checkpoint, which saves them or fails; share() then
    // copies its image to where ours should go.
    bool has_joined() const { return bool(host_); }
    // The message to the holder of a turn that we need.
    std::vector<char> first_word() const;
    // Handles a packet from the holder of the turn that we wait for. True: as hear_others().
    Result<bool> hear_holder(const Turn &turn, meeting::Packet &packet);
    // Reads from waiters for our turns. True: members have been taken over, or ours have moved.
    Result<bool> hear_others();
    // A waiter may have been started by a callback that waits for its end: a deadlock. It is turned
    // away only if this checkpoint makes no progress for a while; otherwise it gets its turn.
    void turn_away();
    // We are the one turned away, by the holder of this turn.
    static Error turned_away(const Turn &turn);
    // Limits the wait for another command, unless the request itself has a limit.
    Result<void> check_other(uint64_t since, const std::string &who) const;

    // After has_joined(). False: the other checkpoint has stepped back, and this one must start
    // again.
    Result<bool> await_report();
    // The joined checkpoint's image serves as ours; it is copied if the file is not the same.
    Result<Outcome> share(std::unique_ptr<image::Sink> sink);
    // Reports the outcome to the checkpoints that have joined this one.
    void tell_guests(const Result<Outcome> &done);
    // Tells them to start again.
    void send_guests_away();

  private:
    meeting::Need need() const;
    Result<bool> answer(Turn::Waiter &waiter, meeting::Packet &packet);
    Result<bool> move_to(int connection);
    Result<bool> take_in(meeting::Packet &packet, Fd guest);
    void say_joined() const;

    pid_t id_;
    const CheckpointOptions &options_;
    Common &common_;
    InScope &in_scope_;
    Roster &roster_;
    meeting::Terms terms_;
    meeting::Rank rank_ = {now_ns(), static_cast<uint64_t>(getpid())};
    std::vector<Fd> guests_; // connections of checkpoints whose members we have taken over
    Fd host_;                // the checkpoint that took over our members
    bool same_ = false;      // and it writes the very file that we should
    meeting::Report report_; // received from it
    Fd image_;
};

} // namespace cryo::capture
