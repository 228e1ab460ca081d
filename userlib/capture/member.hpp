// SPDX-License-Identifier: Apache-2.0
//
// One process of a checkpoint: stopped, described, frozen, written into an image of its own. The
// order in which several of them do so is checkpoint.cpp's.
//
//     std::unique_ptr<Member> one = Member::find(relation, turn, common);
//     one->enter(); one->ask_to_prepare(request); one->ask_to_stop(); one->await_stop();
//     one->describe(); …
//     one->save_unfrozen(writer); one->begin_freezing(Snapshot::automatic, true, -1);
//     one->await_frozen(Snapshot::automatic); one->ask_to_go_on(); …
#pragma once

#include "capture/checkpoint.hpp"
#include "capture/describe.hpp"
#include "capture/early_copy.hpp"
#include "capture/frozen.hpp"
#include "capture/members.hpp"
#include "capture/method.hpp"
#include "capture/pages.hpp"
#include "capture/stopped.hpp"
#include "capture/tracker.hpp"
#include "capture/turn.hpp"

#include <memory>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

// What is known of the checkpoint as a whole, for IMAGE_INFO.
struct ImageFacts {
    std::string_view backend;
    std::string_view snapshot;
    uint64_t stopped_ns = 0;    // 0: it still stands still
    uint64_t stop_begun_ns = 0; // monotonic clock
    uint64_t begun_ns = 0;      // the same
};

uint64_t now_ns();

class Member
{
  public:
    // Looks for the way in, as far as that does not disturb it.
    static std::unique_ptr<Member> find(const Relation &relation, Turn turn, Common &common);
    // Connects to the agent in the process. ESRCH: the process has ended meanwhile.
    Result<void> enter();
    // One that another checkpoint has found, and asked.
    static std::unique_ptr<Member> adopt(const Relation &relation, Turn turn, Fd connection,
                                         Common &common);
    void set_early_look(EarlyLook look) { d_.early = std::move(look); }
    // After that: it still runs. What it has changed is copied, if that will probably be of use.
    // `others`: that are saved with it, and run too.
    void copy_early(const std::vector<pid_t> &others);
    // Memory for what will have to be copied in the stop.
    void provide_stage();
    // Whether what was seen before the stop was so in the stop; when it is frozen.
    Result<bool> early_look_held() const
    {
        switch (method_) {
        case Method::fork:
            return d_.early.held(d_.proc, Proc(frozen_->pid()), d_.watched);
        case Method::staged:
            return staged_unseen_ ? d_.early.held_afterwards(d_.proc, d_.watched) : true;
        default:
            return d_.early.can_wait() ? d_.early.held_afterwards(d_.proc, d_.watched)
                                       : d_.early.held_in_stop(d_.proc, d_.watched);
        }
    }
    // Among all members, when all are known.
    void set_number(size_t number) { number_ = number; }

    const Relation &relation() const { return relation_; }
    Description &description() { return d_; }
    Holder holder() { return {d_.proc, d_.problems, *session_, d_.own_descriptors}; }
    uint64_t threads() const { return threads_; }
    uint64_t pages() const { return pages_; }

    // Its callbacks run, which may take any time: see AgentSession.
    Result<void> ask_to_prepare(const agent::RequestInfo &request);
    uint64_t asked_since() const { return asked_since_; } // on the monotonic clock
    void set_asked_since(uint64_t since) { asked_since_ = since; }
    // It was stopped when it was found: to be asked again and again while it is waited for.
    bool is_stopped() const { return stopped_.has_value(); }
    Result<void> follow() { return stopped_ ? stopped_->follow() : Result<void>(); }
    AgentSession &session() { return *session_; }
    Turn &turn() { return turn_; }
    void set_prepared(bool has_callbacks) { has_callbacks_ = has_callbacks; }
    bool has_callbacks() const { return has_callbacks_; }
    Result<void> ask_to_stop() { return session_->ask_to_stop(); }
    Result<void> await_stop();
    Result<void> ask_to_describe() { return capture::ask_to_describe(*session_); }
    Result<void> describe();
    // Memory that a copy made by fork lacks: the program said so by madvise.
    bool has_unforkable() const;
    // Memory that others have too.
    bool has_common() const { return !d_.shared_objects.empty() || !d_.shared.empty(); }
    // The program, or the kernel on its behalf, would notice a copy.
    bool cannot_be_copied() const;
    // Shared memory, into the image of the first process; and what else fork does not freeze, into
    // its own. While it stands still.
    Result<void> save_common(image::ImageWriter &writer, int device);
    Result<void> save_unfrozen(image::ImageWriter &writer, int device);
    // From now on its memory is as it is now, so that it may go on; unless the answer is
    // Method::stop, because that is best or nothing else can be done: then it has to be thawed, and
    // to freeze itself. In two steps, so that several make their copies at the same time. `alone`:
    // there is no other member. `device`: of the kernel module, or −1.
    Result<void> begin_freezing(Snapshot wanted, bool alone, int device);
    Result<Method> await_frozen(Snapshot wanted);
    void thaw();
    // Before that, and before anybody asks early_look_held(): what it has changed.
    void watch_itself();
    // It serves its own memory, and stands still as long as that is read.
    Result<void> freeze_itself(int device);
    // The same, and its memory goes into the image's file (ImageWriter::place()): then it may go
    // on. Shared memory has been saved before.
    Result<void> place_itself(image::ImageWriter &writer);
    Method method() const { return method_; }
    // Whether what has changed was copied in the stop, and nothing else is needed.
    bool is_staged() const { return method_ == Method::staged; }
    // By what it was frozen and why, for a person.
    std::string about_method() const;
    // How changed pages were found, for a person; nothing where that was not asked.
    std::string about_changes() const;
    // Its address space becomes one of a chain of deltas. Before anything is saved.
    void use_delta(const DeltaPlan::Base *base) { delta_.emplace(base); }
    Result<void> save(image::ImageWriter &writer, const ImageFacts &facts);
    Result<void> served() { return session_->served(); }
    Result<void> ask_to_go_on() { return ask_to_resume(0, 0); }
    Result<void> await_go_on();
    // There will be no image: nothing is read any more, also where the program was just being read.
    void give_up(int why)
    {
        frozen_.reset();
        static_cast<void>(ask_to_resume(why, 0));
    }
    Result<void> callbacks_done();
    // That it would get it, which not every process of a pid namespace does.
    Result<void> check_takes(int signal) const;
    void send_signal(int signal) const;
    // It goes on, but gets the signal first, from itself: so it cannot have run on when it does. An
    // error: it has.
    bool sends_itself_signals() const;
    Result<void> end_with(int signal);
    Result<void> await_end();
    // After SIGSTOP: until no thread of it can run on; and goes on, when somebody lets it.
    void await_standstill() const;
    void let_go();

  private:
    Result<void> ask_to_resume(int why, int signal);
    Member(const Relation &relation, Common &common)
        : relation_(relation), common_(common), d_(relation.pid, common),
          process_(static_cast<int>(syscall(SYS_pidfd_open, relation.pid, 0)))
    {}
    std::vector<Run> watchable() const;
    std::unique_ptr<Tracker> begin_watching();
    void stop_watching(Tracker &tracker);
    void watch_frozen(std::unique_ptr<Tracker> tracker);
    void look_for_changes(Tracker &tracker);
    void look_while_it_stands(Tracker &tracker);
    void use_changes();
    void leave_out_written(std::vector<Run> &runs) const;
    Result<void> audit_early_copy();
    // Of the mappings that are frozen.
    struct Contents {
        std::vector<Run> own, guards;
    };
    static bool is_frozen(const image::Region &region);
    Result<Contents> look_at_contents(const Tracker &tracker, const std::vector<Run> &clean) const;
    std::vector<Run> places_of_agent(const Tracker &tracker) const;
    Result<std::vector<Run>> copy_changed(Tracker &tracker, Stage &stage, std::vector<Run> changed,
                                          std::vector<Run> unchanged);
    std::vector<Run> parts_seen(const Tracker &tracker,
                                std::vector<Run> PageMap::Written::*part) const;
    bool stage(Tracker &tracker, bool whatever_it_costs);
    uint64_t own_pages() const;
    Result<std::unique_ptr<Frozen>> served(Result<PageSource> source) const;
    Result<void> while_served(int device, const std::function<Result<void>(Frozen &)> &save);
    Result<void> save_region(image::Region &region, Frozen &source, image::ImageWriter &writer);
    Result<std::vector<Run>> look_at_region(const image::Region &region, Frozen &source);
    Result<std::vector<PageSource::Part>> parts_to_place();
    Result<uint64_t> save_pages(const std::vector<Run> &runs, Frozen &source,
                                image::ImageWriter &writer, bool zeros_behind_file = false,
                                int protection = -1);
    Result<void> save_private(image::ImageWriter &writer);
    Result<void> identify_files();
    Result<void> write_parts(image::ImageWriter &writer);
    Result<void> write_records(image::ImageWriter &writer, const ImageFacts &facts);

    Relation relation_;
    Common &common_;
    size_t number_ = 0; // among the holders of the common files
    Description d_;
    Turn turn_;  // until it goes on, with all that belongs to it
    Fd process_; // a handle, so that a signal can never reach another process of the same number
    std::optional<AgentSession::Door> door_;
    std::optional<AgentSession> session_;
    std::optional<Stopped> stopped_;
    std::unique_ptr<Frozen> frozen_;
    std::optional<PageDelta> delta_;
    EarlyCopy early_copy_;
    std::unique_ptr<Tracker> armed_;   // until it is frozen
    std::unique_ptr<Tracker> tracker_; // to be asked when the program runs again
    Unchanged unchanged_;
    bool is_watched_ = false; // or that was tried
    std::vector<Run> unsure_; // pages that are to be read, whatever the tracker says
    bool has_callbacks_ = false;
    uint64_t asked_since_ = 0;
    uint64_t threads_ = 0;
    uint64_t pages_ = 0;
    Method method_ = Method::stop;
    Costs costs_;     // as they were estimated
    std::string why_; // it is not what would have been chosen
    uint64_t staged_pages_ = 0, early_pages_ = 0;
    std::vector<Run> audited_early_; // copied before the stop, to be compared
    bool is_placed_ = false;         // its memory is in the image's file already
    bool staged_unseen_ = false;     // the early look is checked when the program runs again
};

// Those whose session cannot be made again, for its leader has ended.
void refuse_lost_sessions(const std::vector<std::unique_ptr<Member>> &members,
                          const std::vector<Relation> &zombies);

// Those of another user than the first one's.
void refuse_several_users(const std::vector<std::unique_ptr<Member>> &members);
// Where they are all of another user than ours.
void note_other_user(const std::vector<std::unique_ptr<Member>> &members,
                     std::vector<std::string> &notices);

} // namespace cryo::capture
