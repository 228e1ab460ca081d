// SPDX-License-Identifier: Apache-2.0
#include "capture/checkpoint.hpp"

#include "base/limits.hpp"
#include "capture/gather/describe_everybody.hpp"
#include "capture/gather/ending.hpp"
#include "capture/gather/everybody.hpp"
#include "capture/gather/gathering.hpp"
#include "capture/gather/keep_waiting.hpp"
#include "capture/gather/objections.hpp"
#include "capture/gather/tries.hpp"
#include "capture/member/beside.hpp"
#include "capture/member/forked.hpp"
#include "image/publication.hpp"
#include "image/sink.hpp"
#include "image/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>

namespace cryo::capture {

namespace {

class Checkpoint
{
  public:
    // `deadline`: on the monotonic clock; 0: none.
    Checkpoint(pid_t id, const CheckpointOptions &options, uint64_t deadline)
        : id_(id), options_(options), common_(options.files), gathering_(id, options, common_),
          begun_(now_ns())
    {
        common_.deadline = deadline;
        common_.silence_ns = options.stall_s * 1'000'000'000ULL;
        common_.at_work = [this] { say_alive(); };
        common_.moved = [this](uint64_t bytes) {
            moved_ += bytes;
            if (options_.progress)
                options_.progress(moved_, std::max(moved_, expected_));
            say_alive();
        };
    }

    Result<Outcome> run();
    // The error in the form that the requester gets.
    Error told(const Error &why) const { return told_of_ended(members_, why); }
    // Tells the programs and their callbacks that there will be no image, and why.
    void give_up(int why)
    {
        common_.files.hold().undo();
        gathering_.give_up(why);
        obstacles_.stood_ns = stop_begun_ != 0 ? now_ns() - stop_begun_ : 0;
    }
    // Reports to the checkpoints that were carried out as part of this one.
    void tell_guests(const Result<Outcome> &done) { gathering_.tell_guests(done); }
    // Makes them join another checkpoint, or save on their own.
    void send_guests_away() { gathering_.send_guests_away(); }
    // What was seen before the stop was no longer true: try again without an early look.
    bool was_deceived() const { return deceived_; }
    // Why it was refused, as far as that may pass.
    const Obstacles &obstacles() const { return obstacles_; }

  private:
    Result<void> open_sink();
    Result<std::unique_ptr<image::ImageWriter>> begin_image(Member &member);
    bool has_unfrozen() const;
    Result<void> save_unfrozen(image::ImageWriter &first);
    Result<std::unique_ptr<image::ImageWriter>> freeze_everybody();
    Result<void> go_on();
    Result<void> all_read();
    void say_alive();
    Result<void> may_be(const std::string &place);
    Result<void> end_stop();
    Result<void> check_early_look(const Member &member, const Result<bool> &held);
    Result<void> save_member(Member &member, image::ImageWriter &writer);
    Result<image::Committed> save_alone(std::unique_ptr<image::ImageWriter> writer);
    Result<image::Committed> save_archive(std::unique_ptr<image::ImageWriter> first);
    // The programs stay stopped until the commit, so that no signal comes without an image, and, on
    // request, no callback goes on without one.
    bool waits() const
    {
        return options_.then_signal != 0 || (options_.callbacks_wait && have_callbacks(members_));
    }
    // The programs themselves are read, not copies of them.
    bool reads() const { return options_.snapshot == Snapshot::stop || waits(); }
    bool single() const { return members_.size() == 1 && zombies_.empty(); }
    void phase(std::string_view name)
    {
        if (options_.phase && !name.empty())
            options_.phase(name);
    }

    pid_t id_;
    const CheckpointOptions &options_;
    Common common_;
    Gathering gathering_;
    std::vector<std::unique_ptr<Member>> &members_ = gathering_.members();
    const std::vector<Relation> &zombies_ = gathering_.zombies();
    uint64_t begun_;
    uint64_t moved_ = 0;    // bytes of memory so far
    uint64_t expected_ = 0; // estimated total
    uint64_t stop_begun_ = 0;
    bool deceived_ = false;
    Obstacles obstacles_;
    bool by_copy_ = false; // the program resumes early; the image is made from what was copied
    Outcome outcome_;
    std::unique_ptr<image::Sink> sink_;
    std::unique_ptr<image::TreeWriter> archive_;
    // Checked right before the commit: programs stopped until then may have resumed.
    image::Publication publication_{[this](const std::string &place) { return may_be(place); }};
    uint64_t alive_ = 0; // when we last said so
    std::optional<KeepWaiting> waiting_;
    DeltaPlan delta_;
    ForkedMembers forked_;
    CpuFacts cpu_;
};

// Whatever can fail for reasons outside the program is tried before the program is stopped.
Result<void> Checkpoint::open_sink()
{
    // A program that has opened the file for its request opens it again for the next.
    image::FileOptions file = {.existing = options_.existing,
                               .sync = options_.sync,
                               .keep_write = options_.requester != 0};
    const bool may_wait = options_.then_signal != 0 || options_.callbacks_wait;
    file.publication = may_wait || options_.rehearse ? &publication_ : nullptr;
    cpu_ = present_cpu();
    Result<DeltaPlan> delta = DeltaPlan::make(options_.delta, {options_.file, options_.backup.name},
                                              id_, options_.files.owner_of);
    if (!delta)
        return delta.error();
    delta_ = std::move(*delta);
    file.backup = {options_.backup.name, options_.backup.keep, delta_.needed()};
    common_.delta = &delta_;
    phase(delta_.notice());
    if (!reads() && options_.snapshot != Snapshot::fork)
        common_.stages = stages_for(delta_, options_.delta.stage_memory);
    if (options_.directory) {
        Result<std::unique_ptr<image::TreeWriter>> made =
            image::create_directory(options_.file, file);
        if (!made)
            return made.error();
        archive_ = std::move(*made);
        return {};
    }
    if (options_.fd >= 0) {
        Fd own(fcntl(options_.fd, F_DUPFD_CLOEXEC, 3));
        if (!own || (fcntl(own.get(), F_GETFL) & O_ACCMODE) == O_RDONLY)
            return Error(EBADF, options_.file + ": is not open for writing");
        sink_ = std::make_unique<image::StreamSink>(std::move(own), options_.file, options_.sync);
        return {};
    }
    // Without the module total time matters more than the stop, so nothing is placed.
    if (options_.device >= 0 && reads() && !waits() && !delta_.wanted() &&
        options_.packing == image::Packing::raw)
        file.placed = memory_of(id_);
    Result<std::unique_ptr<image::Sink>> sink = image::FileSink::create(options_.file, file);
    if (!sink)
        return sink.error();
    sink_ = std::move(*sink);
    return {};
}

Result<std::unique_ptr<image::ImageWriter>> Checkpoint::begin_image(Member &member)
{
    image::WriterOptions options;
    options.packing = packing_for(options_, member.relation().pid);
    if (delta_.wanted()) {
        const DeltaPlan::Base *base = delta_.base_of(member.relation().pid);
        if (base != nullptr)
            options.base = base->image;
        member.memory().use_delta(base);
    } else if (archive_) {
        forked_.begin(member, options);
    }
    Result<std::unique_ptr<image::ImageWriter>> writer =
        archive_ ? archive_->begin_member(options)
                 : image::ImageWriter::create(std::move(sink_), options);
    if (!writer)
        return writer;
    const image::Object memory = {.id = memory_object, .kind = image::ObjectKind::address_space};
    if (Result<void> added = (*writer)->add(memory); !added)
        return added.error();
    return writer;
}

// Memory that fork does not freeze goes into the image of the first member at once.
bool Checkpoint::has_unfrozen() const
{
    return common_.files.has_contents() || common_.ipc.has_contents() ||
           members_.front()->freezing().has_unforkable() ||
           std::ranges::any_of(members_, [](const auto &m) { return m->memory().has_common(); });
}

Result<void> Checkpoint::save_unfrozen(image::ImageWriter &first)
{
    for (const auto &member : members_) {
        if (Result<void> saved = member->memory().save_common(first, options_.device); !saved)
            return saved;
    }
    Result<void> saved = members_.front()->memory().save_unfrozen(first, options_.device);
    if (saved)
        saved = common_.files.save_contents(first, common_.at_work);
    return saved ? common_.ipc.save_contents(first) : saved;
}

// Returns the writer of the first image. Creating it takes time, so it is created after the
// programs have resumed if nothing has to be written before.
Result<std::unique_ptr<image::ImageWriter>> Checkpoint::freeze_everybody()
{
    by_copy_ = !reads() && can_be_copied(members_);
    std::unique_ptr<image::ImageWriter> first;
    const auto begin = [&]() -> Result<void> {
        Result<std::unique_ptr<image::ImageWriter>> begun = begin_image(*members_.front());
        if (!begun)
            return begun.error();
        first = std::move(*begun);
        return {};
    };
    Result<void> done;
    if (!by_copy_ || has_unfrozen()) {
        done = begin();
        if (done)
            done = save_unfrozen(*first);
    }
    if (done && reads() && !waits() && first->place() != nullptr) {
        done = members_.front()->memory().place_itself(*first);
        by_copy_ = true;
    } else if (done && by_copy_) {
        Result<bool> frozen = freeze_all(members_, options_.snapshot, single(), options_.device);
        if (!frozen)
            return frozen.error();
        by_copy_ = *frozen;
    }
    if (done && by_copy_)
        done = go_on();
    if (done && !first)
        done = begin();
    if (done)
        done = common_.files.save_copied(*first);
    if (!done)
        return done.error();
    return first;
}

// Fails if one of them has resumed earlier: what was read of it after that is no valid image.
Result<void> Checkpoint::go_on()
{
    if (Result<void> gone = resume_all(members_); !gone)
        return gone;
    outcome_.stopped_ns = now_ns() - stop_begun_;
    phase(phase_frozen);
    return {};
}

// The programs resume by themselves if they receive nothing for too long. So this is called only
// where there is real progress.
void Checkpoint::say_alive()
{
    constexpr uint64_t seldom_ns = 500'000'000;
    const uint64_t now = now_ns();
    if (now - alive_ < seldom_ns)
        return;
    alive_ = now;
    capture::say_alive(members_);
}

// Programs stopped only to be read resume before the commit, whose failure does not concern them.
Result<void> Checkpoint::all_read()
{
    phase("memory written");
    Result<void> gone = waits() ? all_stand(members_) : by_copy_ ? Result<void>() : go_on();
    if (gone && waits() && options_.then_signal == 0)
        waiting_.emplace(members_);
    if (gone && !waits())
        gone = gathering_.callbacks_done();
    return gone ? check_deadline(common_.deadline) : gone;
}

// Decides whether the complete image gets its name.
Result<void> Checkpoint::may_be(const std::string &place)
{
    const uint64_t begun = now_ns();
    if (options_.rehearse) {
        phase("written");
        if (Result<void> right = options_.rehearse(place, [this] { say_alive(); }); !right)
            return right.error().within(options_.file + " is not kept");
        outcome_.rehearsed_ns = now_ns() - begun;
        phase("rehearsed: it comes back as it was saved");
    }
    return waits() ? all_stand(members_) : Result<void>();
}

// The image is committed; now send the signal and resume.
Result<void> Checkpoint::end_stop()
{
    const int signal = options_.then_signal;
    const Ended ended = end_all(members_, signal, common_.files.hold());
    Result<void> taken;
    if (!ended.all && ended.count == 0)
        taken = publication_.take_back();
    if (!taken)
        return ended.all.error().within(taken.error().text());
    if (!ended.all)
        return ended.all;
    static_cast<void>(publication_.keep());
    if (signal == SIGSTOP)
        return {};
    // A dead or stopped process does not report on its callbacks.
    const bool tells =
        signal != SIGKILL && signal != SIGTSTP && signal != SIGTTIN && signal != SIGTTOU;
    return tells ? gathering_.callbacks_done() : Result<void>();
}

Result<void> Checkpoint::check_early_look(const Member &member, const Result<bool> &held)
{
    if (!held)
        return held.error();
    deceived_ = !*held;
    if (!deceived_)
        return {};
    phase("memory has changed while the program was being stopped; once more");
    return Error(EAGAIN, fmt::format("process {} has changed its memory while it was being stopped",
                                     member.relation().pid));
}

Result<void> Checkpoint::save_member(Member &member, image::ImageWriter &writer)
{
    Freezing &freezing = member.freezing();
    if (!by_copy_)
        freezing.watch_itself();
    // A copy exists only until it is read; otherwise check in parallel with writing.
    std::future<Result<bool>> look;
    if (freezing.method() != Method::fork)
        look = beside([&freezing] { return freezing.early_look_held(); });
    else if (Result<void> same = check_early_look(member, freezing.early_look_held()); !same)
        return same;
    if (!by_copy_) {
        if (&member != members_.front().get()) {
            if (Result<void> saved = member.memory().save_unfrozen(writer, options_.device); !saved)
                return saved;
        }
        if (Result<void> frozen = freezing.freeze_itself(options_.device); !frozen)
            return frozen;
    }
    const std::string_view how = name_of(freezing.method());
    if (outcome_.snapshot.empty())
        outcome_.snapshot = how;
    const ImageFacts facts = {options_.device >= 0 ? "kmod" : "user", how, outcome_.stopped_ns,
                              stop_begun_, begun_};
    if (Result<void> saved = member.save(writer, facts); !saved)
        return saved;
    if (look.valid()) {
        if (Result<void> same = check_early_look(member, look.get()); !same)
            return same;
    }
    outcome_.pages += member.memory().pages();
    phase(member.about_method());
    phase(member.about_changes());
    return by_copy_ ? Result<void>() : member.process().agent().memory().served();
}

Result<image::Committed> Checkpoint::save_alone(std::unique_ptr<image::ImageWriter> writer)
{
    if (Result<void> saved = save_member(*members_.front(), *writer); !saved)
        return saved.error();
    if (Result<void> done = all_read(); !done)
        return done.error();
    return writer->commit();
}

Result<image::Committed> Checkpoint::save_archive(std::unique_ptr<image::ImageWriter> first)
{
    std::unique_ptr<image::ImageWriter> writer = std::move(first);
    for (const auto &member : members_) {
        if (!writer) {
            Result<std::unique_ptr<image::ImageWriter>> next = begin_image(*member);
            if (!next)
                return next.error();
            writer = std::move(*next);
        }
        if (Result<void> saved = save_member(*member, *writer); !saved)
            return saved.error();
        auto done = archive_->end_member(*writer, record_about(member->description().process));
        if (!done)
            return done;
        forked_.end(*member, *done);
        writer.reset();
    }
    for (const Relation &zombie : zombies_) {
        image::Member record = record_about(zombie);
        record.state = image::MemberState::zombie;
        record.wait_status = zombie.wait_status;
        archive_->add_without_image(record);
    }
    if (Result<void> done = all_read(); !done)
        return done.error();
    return archive_->commit(
        {.scope = options_.scope, .root_pid = static_cast<uint32_t>(gathering_.root())});
}

Result<Outcome> Checkpoint::run()
{
    if (Result<void> ready = open_sink(); !ready)
        return ready.error();
    if (Result<void> stopped = gathering_.stop_everybody(); !stopped)
        return stopped.error();
    stop_begun_ = gathering_.begun();
    if (gathering_.has_joined())
        return gathering_.share(std::move(sink_));
    for (const auto &member : members_) {
        if (Result<void> taken = member->process().check_takes(options_.then_signal); !taken)
            return taken.error();
        outcome_.threads += member->process().threads();
        member->description().cpu_facts = cpu_;
    }
    outcome_.processes = members_.size();
    phase("stopped");
    if (options_.progress)
        expected_ = memory_of(members_);
    if (Result<void> described = describe_everybody(gathering_, common_, obstacles_); !described)
        return described.error();
    if (Result<void> ends = check_ends(members_, options_.then_signal, common_.files.hold()); !ends)
        return ends.error();
    phase("described");
    if (!archive_ && !single())
        archive_ = std::make_unique<image::ArchiveWriter>(std::move(sink_));
    forked_ = ForkedMembers(members_);
    Result<std::unique_ptr<image::ImageWriter>> first = freeze_everybody();
    if (!first)
        return first.error();
    Result<image::Committed> committed =
        archive_ ? save_archive(std::move(*first)) : save_alone(std::move(*first));
    waiting_.reset();
    if (!committed) {
        static_cast<void>(publication_.take_back());
        return committed.error();
    }
    outcome_.image = *committed;
    phase("committed");
    if (waits()) {
        if (Result<void> ended = end_stop(); !ended)
            return ended.error();
        outcome_.stopped_ns = now_ns() - stop_begun_;
    }
    outcome_.notices = common_.files.notices();
    outcome_.notices.insert(outcome_.notices.end(), gathering_.left_out().begin(),
                            gathering_.left_out().end());
    add_remarks(members_, outcome_.notices);
    outcome_.total_ns = now_ns() - begun_;
    return outcome_;
}

} // namespace

Result<Outcome> checkpoint(pid_t id, const CheckpointOptions &options)
{
    allow_descriptors();
    const uint64_t begun = now_ns();
    const uint64_t deadline =
        options.timeout_s != 0 ? begun + options.timeout_s * 1'000'000'000ULL : 0;
    CheckpointOptions now = options;
    // What was written to a pipe cannot be withdrawn for a second try, and a program that stays
    // stopped all the time is looked at only once.
    now.early_look = options.early_look && options.fd < 0 && options.then_signal == 0 &&
                     options.snapshot != Snapshot::stop;
    for (Tries tries(options, deadline);; tries.pause()) {
        Checkpoint whole(id, now, deadline);
        Result<Outcome> done = whole.run();
        if (!done) {
            done = whole.told(done.error());
            whole.give_up(done.error().code());
        }
        if (!done && done.error().code() == EMFILE)
            done = done.error().within("raise the limit of descriptors (ulimit -n), of which each "
                                       "process takes several");
        if (!done && whole.was_deceived()) {
            now.early_look = false;
            tries.once_more();
        } else if (!done && tries.may_pass(whole.obstacles())) {
            if (options.phase)
                options.phase("refused for now, and tried again: " + done.error().text());
            whole.send_guests_away();
        } else {
            if (done) {
                done->tries = tries.count();
                done->total_ns = now_ns() - begun;
            }
            done = done ? done : tries.told(done.error());
            whole.tell_guests(done);
            return done;
        }
    }
}

} // namespace cryo::capture
