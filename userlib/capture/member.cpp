// SPDX-License-Identifier: Apache-2.0
#include "capture/member.hpp"

#include "capture/holes.hpp"
#include "libcr.h"
#include "look/identity.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

constexpr uint64_t patience_ns = 5'000'000'000;

// Memory that the program excluded from fork by madvise, so that a copy lacks it.
bool fork_leaves_out(const image::Region &region)
{
    return (region.flags & (image::kRegionDontFork | image::kRegionWipeOnFork)) != 0;
}

// Whether a process that does not listen yet has Cryo's library, or will have it.
bool will_listen(const Proc &proc)
{
    Result<std::string> maps = proc.read("maps");
    // An exiting process has no memory any more: the caller notices that.
    if (!maps || maps->empty() || maps->find("/libcr") != std::string::npos)
        return true;
    // cr_run itself, about to execute the program; or a process being restored by cr_restart.
    if (runs_program(proc, "/cr_run") || is_being_restarted(proc))
        return true;
    Result<std::string> environment = proc.read("environ");
    if (environment && environment->empty()) {
        // During exec there is no environment yet.
        if (Result<Relation> now = relation_of(proc.pid()); !now || now->executing)
            return true;
        environment = proc.read("environ");
    }
    if (environment && environment->find("libcr_run.so") != std::string::npos)
        return true;
    // The shell of a system() that is about to execute itself (agent/interposed_shell.cpp).
    const Result<std::string> command = proc.read("cmdline");
    if (command && command->find("export LD_PRELOAD=") != std::string::npos &&
        command->find("/libcr_") != std::string::npos)
        return true;
    // A process that has exited since has no memory for this to be read from.
    maps = proc.read("maps");
    return !maps || maps->empty();
}

} // namespace

std::unique_ptr<Member> Member::find(const Relation &relation, Turn turn, Common &common)
{
    std::unique_ptr<Member> made(new Member(relation, common));
    made->turn_ = std::move(turn);
    if (Result<AgentDoor> door = AgentDoor::find(relation.pid); door)
        made->door_.emplace(std::move(*door));
    return made;
}

// A process that was made by fork, or executed another program, a moment ago may not listen yet, so
// this retries for a while.
Result<void> Member::enter()
{
    const pid_t pid = relation_.pid;
    if (!process_)
        return Error::from_errno(fmt::format("a handle of process {}", pid), errno);
    const uint64_t begun = now_ns();
    for (;;) {
        const Result<Relation> now = relation_of(pid);
        if (!now || now->zombie || now->started != relation_.started)
            return Error(ESRCH, fmt::format("no process {}", pid));
        if (now->stopped && now->traced && !stopped_)
            return Error(ENOTSUP,
                         fmt::format("process {} is stopped by a debugger: let it go on", pid));
        if (now->stopped && !stopped_) {
            Result<Stopped> held = Stopped::hold(pid, AgentDoor::signal_of(d_.proc));
            if (!held)
                return held.error();
            stopped_.emplace(std::move(*held));
        }
        Result<AgentDoor> door = door_ ? std::move(*door_) : AgentDoor::find(pid);
        door_.reset();
        Result<AgentSession> session =
            door ? AgentSession::enter(std::move(*door)) : Result<AgentSession>(door.error());
        // Otherwise the pid may have been reused, so that the connection leads to another process
        // than the one that was looked at.
        pollfd ended = {process_.get(), POLLIN, 0};
        if (session && poll(&ended, 1, 0) == 0) {
            session_.emplace(std::move(*session));
            session_->set_deadline(common_.deadline);
            session_->set_silence(common_.silence_ns);
            return {};
        }
        // A process that has ended meanwhile also fails the permission checks.
        if (const Result<Relation> after = relation_of(pid); !after || after->zombie)
            continue;
        if (session)
            return Error(ESRCH, fmt::format("no process {}", pid));
        if (session.error().code() != ESRCH || now_ns() - begun > patience_ns ||
            !will_listen(d_.proc))
            return Error(session.error().code() == ESRCH ? CR_ENOSUPPORT : session.error().code(),
                         session.error().text(), session.error().reason());
        usleep(1000);
    }
}

std::unique_ptr<Member> Member::adopt(const Relation &relation, Turn turn, Fd connection,
                                      Common &common)
{
    std::unique_ptr<Member> made(new Member(relation, common));
    made->turn_ = std::move(turn);
    made->session_.emplace(AgentSession::adopt(std::move(connection), relation.pid));
    made->session_->set_deadline(common.deadline);
    made->session_->set_silence(common.silence_ns);
    return made;
}

Result<void> Member::describe()
{
    d_.process.stopped = is_stopped();
    if (Result<void> described = capture::describe(d_, *session_); !described)
        return described;
    for (const image::Thread &thread : d_.threads) {
        Result<void> mended = stopped_
                                  ? stopped_->mend_frame(static_cast<pid_t>(thread.tid), thread.sp)
                                  : Result<void>();
        if (!mended)
            return mended;
    }
    return {};
}

bool Member::is_frozen(const image::Region &region)
{
    return (region.flags & image::kRegionShared) == 0 && !fork_leaves_out(region);
}

bool Member::has_unforkable() const
{
    return std::any_of(d_.regions.begin(), d_.regions.end(), fork_leaves_out);
}

// A subreaper would see the copy among its children. Huge pages of hugetlb are scarce: the copy
// could need as many again, page by page as the program writes, or lose its memory.
bool Member::cannot_be_copied() const
{
    return d_.process.child_subreaper || d_.process.pid == 1 ||
           std::ranges::any_of(d_.regions, [](const image::Region &region) {
               return region.kind == image::RegionKind::hugetlb;
           });
}

// The first process of a pid namespace only gets signals that it handles; SIGKILL and SIGSTOP only
// from outside. If we are inside, its pid is 1 for us as well.
Result<void> Member::check_takes(int signal) const
{
    const pid_t pid = relation_.pid;
    const Result<std::string> status = signal == 0 ? std::string() : d_.proc.read("status");
    if (!status || status->empty())
        return {};
    std::string_view ids = field(*status, "NSpid"), caught = field(*status, "SigCgt");
    uint64_t own = 0;
    while (!ids.empty())
        own = take_number(ids);
    const bool handled = (take_number(caught, 16) >> (signal - 1) & 1) != 0;
    const bool forced = pid != 1 && (signal == SIGKILL || signal == SIGSTOP);
    if (own == 1 && !handled && !forced)
        return Error(ENOTSUP, fmt::format("process {}: as the first of its pid namespace it "
                                          "takes no signal {} from us: save it without, and "
                                          "then send SIGKILL from outside the namespace",
                                          pid, signal));
    return {};
}

void Member::send_signal(int signal) const
{
    if (stopped_ && signal == SIGSTOP)
        return; // it is stopped already
    syscall(SYS_pidfd_send_signal, process_.get(), signal, nullptr, 0);
}

// The first thread to stop has told all others to stop before they return to the program; the
// requester of SIGSTOP expects to find all of them stopped.
void Member::await_standstill() const
{
    if (stopped_)
        return;
    const uint64_t begun = now_ns();
    while (now_ns() - begun < patience_ns) {
        Result<std::vector<int>> threads = d_.proc.numbers("task");
        if (!threads)
            return; // it has been killed
        const bool all = std::ranges::all_of(*threads, [](int tid) {
            Result<Relation> now = relation_of(tid);
            return !now || now->stopped || now->ended || now->of_kernel;
        });
        if (all)
            return;
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
}

// What fork does not freeze is copied while the program is stopped: shared memory, and memory that
// is not inherited.
Result<void> Member::save_unfrozen(image::ImageWriter &writer, int device)
{
    if (!has_unforkable())
        return {};
    return while_served(device, [&](Frozen &source) -> Result<void> {
        for (image::Region &region : d_.regions) {
            if (!fork_leaves_out(region) || (region.flags & image::kRegionShared) != 0)
                continue;
            if (Result<void> saved = save_region(region, source, writer); !saved)
                return saved;
        }
        return {};
    });
}

Result<void> Member::save_common(image::ImageWriter &writer, int device)
{
    for (const image::Object &object : d_.shared_objects) {
        if (Result<void> added = writer.add(object); !added)
            return added;
    }
    if (Result<void> left = leave_out_holes(*session_, d_.shared); !left || d_.shared.empty())
        return left;
    return while_served(device, [&](Frozen &source) -> Result<void> {
        for (const SharedPart &part : d_.shared) {
            const std::vector<Run> all = {{part.start, part.end}};
            Result<uint64_t> saved =
                save_runs(all, source, writer, part.object, part.start / 4096 - part.page, true,
                          part.protection);
            if (!saved)
                return saved.error();
            pages_ += *saved;
        }
        return {};
    });
}

Result<void> Member::while_served(int device, const std::function<Result<void>(Frozen &)> &save)
{
    Result<std::unique_ptr<Frozen>> source = served(session_->memory().serve(device));
    if (!source)
        return source.error();
    if (Result<void> saved = save(**source); !saved)
        return saved;
    Result<void> done = (*source)->finish();
    return done ? session_->memory().served() : done;
}

// For the address space: page numbers derive from addresses.
Result<uint64_t> Member::save_pages(const std::vector<Run> &runs, Frozen &source,
                                    image::ImageWriter &writer, bool zeros_behind_file,
                                    int protection)
{
    if (delta_)
        return save_changed(runs, source, writer, *delta_, zeros_behind_file, protection);
    return save_runs(runs, source, writer, memory_object, 0, zeros_behind_file, protection);
}

// Finds the pages of the region to save, and records its guard pages.
Result<std::vector<Run>> Member::look_at_region(const image::Region &region, Frozen &source)
{
    std::vector<Run> runs = {{region.start, region.end}};
    if ((region.flags & image::kRegionAllSaved) == 0) {
        Result<std::vector<Run>> own = source.own_pages(region.start, region.end);
        if (!own)
            return own.error();
        runs = std::move(*own);
    }
    Result<std::vector<Run>> guards = source.guards(region.start, region.end);
    if (!guards)
        return guards.error();
    for (const Run &run : *guards)
        d_.guards.push_back({run.start, run.end});
    return runs;
}

Result<void> Member::save_region(image::Region &region, Frozen &source, image::ImageWriter &writer)
{
    Result<std::vector<Run>> runs = look_at_region(region, source);
    if (!runs)
        return runs.error();
    const bool whole_file = (region.flags & image::kRegionAllSaved) != 0;
    Result<uint64_t> saved =
        save_pages(*runs, source, writer, whole_file, static_cast<int>(region.prot));
    if (!saved)
        return saved.error();
    region.saved = *saved;
    pages_ += *saved;
    return {};
}

Result<void> Member::save_private(image::ImageWriter &writer)
{
    for (image::Region &region : d_.regions) {
        if (!is_frozen(region))
            continue;
        if (Result<void> saved = save_region(region, *frozen_, writer); !saved)
            return saved;
    }
    if (d_.memory.vdso_size != 0) {
        const std::vector<Run> vdso = {
            {d_.memory.vdso_start, d_.memory.vdso_start + d_.memory.vdso_size}};
        if (Result<uint64_t> saved = save_pages(vdso, *frozen_, writer); !saved)
            return saved.error();
    }
    if (delta_ && delta_->stores()) {
        if (Result<void> done = delta_->finish(writer, d_.objects.take()); !done)
            return done;
    }
    return frozen_->finish();
}

Result<void> Member::identify_files()
{
    for (uint32_t id : d_.mapped_files) {
        image::File &file = d_.files.files()[id - 1];
        if (!file.build_id.empty() || !file.content_hash.empty())
            continue; // another member has it mapped too
        Result<Identity> identity = identify(std::string(file.path));
        if (!identity)
            return identity.error().within("a mapped file");
        // The file is read after the program has resumed: it must still be what the program had.
        struct stat now;
        if (stat(std::string(file.path).c_str(), &now) != 0 || now.st_ino != file.inode ||
            static_cast<uint64_t>(now.st_size) != file.size ||
            now.st_mtim.tv_sec * 1'000'000'000LL + now.st_mtim.tv_nsec != file.modified)
            return Error(EBUSY, fmt::format("the mapped file {} was changed during the checkpoint; "
                                            "try again",
                                            file.path));
        file.size = identity->size;
        const auto keep = [&](const auto &bytes) {
            return image::as_bytes(d_.strings.keep(std::string(bytes.begin(), bytes.end())));
        };
        if (!identity->build_id.empty())
            file.build_id = keep(identity->build_id);
        else
            file.content_hash = keep(identity->content_hash);
    }
    return {};
}

// argv and the environment may exceed the size of one record.
Result<void> Member::write_parts(image::ImageWriter &writer)
{
    constexpr size_t part_size = 64 * 1024;
    const auto split = [&]<class R>(const std::string &whole) -> Result<void> {
        R record;
        std::string_view rest = whole;
        do {
            record.data = image::as_bytes(rest.substr(0, part_size));
            if (Result<void> added = writer.add(record); !added)
                return added;
            rest.remove_prefix(std::min(part_size, rest.size()));
            record.part++;
        } while (!rest.empty());
        return {};
    };
    if (Result<void> added = split.operator()<image::Args>(d_.arguments); !added)
        return added;
    if (Result<void> added = split.operator()<image::Environ>(d_.environment); !added)
        return added;
    image::Auxv auxv;
    auxv.pairs = image::List<uint64_t>::of(d_.auxv);
    return writer.add(auxv);
}

Result<void> Member::write_records(image::ImageWriter &writer, const ImageFacts &facts)
{
    utsname system = {};
    uname(&system);
    const passwd *user = getpwuid(d_.process.uid);
    image::ImageInfo info;
    info.host = system.nodename;
    info.kernel = system.version;
    info.user = user != nullptr ? user->pw_name : "";
    info.backend = facts.backend;
    info.snapshot = facts.snapshot;
    info.started = d_.process.cut_realtime;
    const uint64_t now = now_ns();
    info.stopped_ns = facts.stopped_ns != 0 ? facts.stopped_ns : now - facts.stop_begun_ns;
    info.total_ns = now - facts.begun_ns;
    std::string boot_id;
    if (Result<std::string> id = d_.proc.read("../sys/kernel/random/boot_id"); id) {
        boot_id = id->substr(0, id->find('\n'));
        info.boot_id = boot_id;
    }
    std::set<uint32_t> mapped;
    for (const image::Region &region : d_.regions) {
        if (region.file != 0)
            mapped.insert(region.file);
    }
    Result<void> added = writer.add(info);
    const auto one = [&](const auto &record) {
        if (added)
            added = writer.add(record);
    };
    const auto all = [&](const auto &records) {
        for (const auto &record : records)
            one(record);
    };
    one(d_.process);
    one(d_.memory);
    one(d_.agent);
    one(d_.cpu);
    if (added)
        added = write_parts(writer);
    all(d_.threads);
    all(d_.regions);
    all(d_.guards);
    all(d_.aio_contexts);
    if (added)
        added = d_.files.write_records(writer, number_, mapped);
    if (added && number_ == 0)
        added = d_.ipc.write_records(writer);
    all(d_.actions);
    all(d_.pending);
    all(d_.timers);
    all(d_.limits);
    return added;
}

Result<void> Member::save(image::ImageWriter &writer, const ImageFacts &facts)
{
    use_changes();
    if (Result<void> audited = audit_early_copy(); !audited)
        return audited;
    Result<void> saved = is_placed_ ? writer.check_placed() : save_private(writer);
    if (!saved)
        return saved;
    if (Result<void> identified = identify_files(); !identified)
        return identified;
    return write_records(writer, facts);
}

} // namespace cryo::capture
