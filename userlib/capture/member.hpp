// SPDX-License-Identifier: Apache-2.0
//
// One process of a checkpoint: stopped, described, frozen, and written into its own image.
// checkpoint.cpp decides the order in which several members do so.
//
//     std::unique_ptr<Member> one = Member::find(relation, turn, common);
//     one->enter(); one->ask_to_prepare(request); one->ask_to_stop(); one->await_stop();
//     one->describe(); …
//     one->save_unfrozen(writer); one->begin_freezing(Snapshot::automatic, true, -1);
//     one->await_frozen(Snapshot::automatic); one->ask_to_go_on(); …
#pragma once

#include "base/clock.hpp"
#include "capture/checkpoint.hpp"
#include "capture/describe.hpp"
#include "capture/early_copy.hpp"
#include "capture/frozen.hpp"
#include "capture/method.hpp"
#include "capture/pages.hpp"
#include "capture/stopped.hpp"
#include "capture/tracker.hpp"
#include "capture/turn.hpp"
#include "look/members.hpp"

#include <memory>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

// Facts about the checkpoint as a whole, for IMAGE_INFO.
struct ImageFacts {
    std::string_view backend;
    std::string_view snapshot;
    uint64_t stopped_ns = 0;    // 0: it is still stopped
    uint64_t stop_begun_ns = 0; // monotonic clock
    uint64_t begun_ns = 0;      // monotonic clock
};

class Member
{
  public:
    // Finds the agent's address, as far as that does not disturb the process.
    static std::unique_ptr<Member> find(const Relation &relation, Turn turn, Common &common);
    // Connects to the agent in the process. ESRCH: the process has ended meanwhile.
    Result<void> enter();
    // A member that another checkpoint has found and asked to prepare.
    static std::unique_ptr<Member> adopt(const Relation &relation, Turn turn, Fd connection,
                                         Common &common);
    void set_early_look(EarlyLook look) { d_.early = std::move(look); }
    // After that, while it still runs: copies what it has changed, if that will probably help.
    // `others`: processes saved with it, running too.
    void copy_early(const std::vector<pid_t> &others);
    // Allocates memory for what will have to be copied in the stop.
    void provide_stage();
    // Whether what was seen before the stop was still true in the stop; asked once it is frozen.
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
    // The member's index among all members, once all are known.
    void set_number(size_t number) { number_ = number; }

    const Relation &relation() const { return relation_; }
    Description &description() { return d_; }
    Holder holder() { return {d_.proc, d_.problems, *session_, d_.own_descriptors}; }
    uint64_t threads() const { return threads_; }
    uint64_t pages() const { return pages_; }

    // Starts its callbacks, which may take any time: see AgentSession.
    Result<void> ask_to_prepare(const agent::RequestInfo &request);
    uint64_t asked_since() const { return asked_since_; } // on the monotonic clock
    void set_asked_since(uint64_t since) { asked_since_ = since; }
    // Whether the member was found stopped: then follow() must be called repeatedly while waiting.
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
    // Memory that the program excluded from fork by madvise, so that a copy lacks it.
    bool has_unforkable() const;
    // Memory that other processes have too.
    bool has_common() const { return !d_.shared_objects.empty() || !d_.shared.empty(); }
    // The program, or the kernel on its behalf, would notice a copy.
    bool cannot_be_copied() const;
    // While it is stopped: save shared memory into the first process's image, and the other memory
    // that fork does not freeze into its own.
    Result<void> save_common(image::ImageWriter &writer, int device);
    Result<void> save_unfrozen(image::ImageWriter &writer, int device);
    // Freezes its memory as it is now, so that it may resume. If the result is Method::stop,
    // because that is best or nothing else works, it must be thawed and freeze itself instead. Two
    // steps, so that several members copy at the same time. `alone`: there is no other member.
    // `device`: of the kernel module, or −1.
    Result<void> begin_freezing(Snapshot wanted, bool alone, int device);
    Result<Method> await_frozen(Snapshot wanted);
    void thaw();
    // Before freeze_itself() and early_look_held(): finds what it has changed.
    void watch_itself();
    // The process serves its own memory, and stays stopped while that is read.
    Result<void> freeze_itself(int device);
    // As freeze_itself(), but the memory goes into the image's file (ImageWriter::place()); then
    // the process may resume. Shared memory must have been saved before.
    Result<void> place_itself(image::ImageWriter &writer);
    Method method() const { return method_; }
    // Whether the changed pages were copied in the stop, so that nothing else need be read.
    bool is_staged() const { return method_ == Method::staged; }
    // How it was frozen and why, for the user.
    std::string about_method() const;
    // How changed pages were found, for the user; empty if that was not needed.
    std::string about_changes() const;
    // Makes its address space part of a chain of deltas. Must precede any saving.
    void use_delta(const DeltaPlan::Base *base, Digests digests = Digests::stored)
    {
        delta_.emplace(base, digests);
    }
    PageTable take_pages() { return delta_->take_pages(); }
    Result<void> save(image::ImageWriter &writer, const ImageFacts &facts);
    Result<void> served() { return session_->memory().served(); }
    Result<void> ask_to_go_on() { return ask_to_resume(0, 0); }
    Result<void> await_go_on();
    // There will be no image: abandons all reading, even in progress, and lets the program resume.
    void give_up(int why)
    {
        frozen_.reset();
        static_cast<void>(ask_to_resume(why, 0));
    }
    Result<void> callbacks_done();
    // Checks that the signal would reach it; some processes of a pid namespace ignore it.
    Result<void> check_takes(int signal) const;
    void send_signal(int signal) const;
    // Resumes, but sends itself the signal first, so that nothing of it can run before the signal
    // arrives. An error: it has resumed already.
    bool sends_itself_signals() const;
    Result<void> end_with(int signal);
    Result<void> await_end();
    // After SIGSTOP: waits until no thread runs; let_go() then frees it to run once continued.
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
    // Pages and guards of the mappings that are frozen.
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
    size_t number_ = 0; // index among the holders of the common files
    Description d_;
    Turn turn_;  // held until it has resumed and its callbacks have ended
    Fd process_; // a pidfd, so that a signal never hits another process with a reused pid
    std::optional<AgentDoor> door_;
    std::optional<AgentSession> session_;
    std::optional<Stopped> stopped_;
    std::unique_ptr<Frozen> frozen_;
    std::optional<PageDelta> delta_;
    EarlyCopy early_copy_;
    std::unique_ptr<Tracker> armed_;   // until it is frozen
    std::unique_ptr<Tracker> tracker_; // to be asked after the program has resumed
    Unchanged unchanged_;
    bool is_watched_ = false; // or watching was tried
    std::vector<Run> unsure_; // pages to read regardless of the tracker
    bool has_callbacks_ = false;
    uint64_t asked_since_ = 0;
    uint64_t threads_ = 0;
    uint64_t pages_ = 0;
    Method method_ = Method::stop;
    Costs costs_;     // as estimated
    std::string why_; // why it is not the preferred method
    uint64_t staged_pages_ = 0, early_pages_ = 0;
    std::vector<Run> audited_early_; // copied before the stop, to be compared
    bool is_placed_ = false;         // its memory is already in the image's file
    bool staged_unseen_ = false;     // check the early look after the program resumes
};

// Refuses members whose session cannot be recreated because its leader has ended.
void refuse_lost_sessions(const std::vector<std::unique_ptr<Member>> &members,
                          const std::vector<Relation> &zombies);

// Refuses members whose user is not the first member's.
void refuse_several_users(const std::vector<std::unique_ptr<Member>> &members);
// Adds a notice if the members belong to another user than ours.
void note_other_user(const std::vector<std::unique_ptr<Member>> &members,
                     std::vector<std::string> &notices);

// Adds a notice for each member that has keys which are not saved.
void note_own_keys(const std::vector<std::unique_ptr<Member>> &members,
                   std::vector<std::string> &notices);

} // namespace cryo::capture
