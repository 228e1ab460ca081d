// SPDX-License-Identifier: Apache-2.0
// The plan of all processes: the open files, once for all of them; then each process by itself.
#include "base/clock.hpp"
#include "resources/about_process.hpp"
#include "resources/terminal.hpp"
#include "restore/kept_ids.hpp"
#include "restore/mapped_files.hpp"
#include "restore/open_parts.hpp"
#include "restore/plan_copies.hpp"
#include "restore/relations.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <time.h>
#include <utility>

namespace cryo::restore {

namespace {

class Planner
{
  public:
    Planner(const image::Snapshot &snapshot, const RestartOptions &options)
        : snapshot_(snapshot), options_(options)
    {}

    Result<std::unique_ptr<TreePlan>> plan();

  private:
    Result<void> read();
    Saved distribute();
    Result<void> give_pidfds(Newborn &kin, const Planning &own) const;
    void give_proc_files(Newborn &kin, const Planning &own) const;
    Result<void> give_terminal(Newborn &kin, int number, Planning &opening) const;
    void choose_ids();
    void note_clock();
    int floor() const;

    const image::Snapshot &snapshot_;
    RestartOptions options_;
    TreeMembers all_;
    std::unique_ptr<TreePlan> tree_ = std::make_unique<TreePlan>();
};

Result<void> Planner::read()
{
    for (const image::SnapshotMember &member : snapshot_.members()) {
        if (member.state == image::MemberState::omitted)
            continue;
        auto one = std::make_unique<TreeMember>();
        one->member = &member;
        if (member.state == image::MemberState::saved) {
            Result<std::unique_ptr<image::Image>> image = snapshot_.open_member(member);
            if (!image)
                return image.error();
            one->image = std::move(*image);
            if (auto chain = one->image->chain(); !chain)
                return chain.error();
            if (Result<void> read = read_saved(*one->image, one->saved); !read)
                return read.error();
            if (one->saved.agent.protocol == 0)
                return Error(ENOTSUP, one->image->name() + ": no image of a process");
            relocate(one->saved, options_.files);
            if (options_.rehearse)
                keep_names_apart(one->saved);
        }
        all_.push_back(std::move(one));
    }
    if (all_.empty() || !all_.front()->image)
        return Error(EINVAL, "the image holds no process");
    return {};
}

// The first image has the records of the whole tree: all processes get them, and each learns what
// it has to do itself. Returned is what opening the files needs: of all processes together.
Saved Planner::distribute()
{
    Saved &first = all_.front()->saved;
    const auto of_tree = std::make_shared<image::SavedRecords>(first.own);
    first.is_first = true;
    Saved common;
    common.process = first.process;
    common.of<image::Timer>() = first.of<image::Timer>();
    common.of<image::Lock>() = first.of<image::Lock>();
    std::map<uint32_t, Saved *> holder; // OPEN_FILE → the first process that holds it
    std::set<uint32_t> owned;
    for (const auto &one : all_) {
        for (const image::Descriptor &descriptor : one->saved.descriptors()) {
            holder.emplace(descriptor.open_file, &one->saved);
            common.descriptors().push_back(descriptor);
            const auto file = first.open_files().find(descriptor.open_file);
            if (file != first.open_files().end() && file->second.owner_type == F_OWNER_PID &&
                static_cast<uint32_t>(file->second.owner) == one->saved.process.pid)
                owned.insert(file->first);
        }
        learn_files(of_tree->of<image::File>(), one->saved.files());
        // Files are made for all processes, and those of huge pages as they are mapped.
        std::ranges::copy_if(one->saved.regions(), std::back_inserter(common.regions()),
                             [](const image::Region &region) {
                                 return region.file != 0 &&
                                        (region.flags & image::kRegionNoReserve) != 0;
                             });
    }
    for (const image::Passed &passed : first.of<image::Passed>()) {
        for (size_t i = 0; i < passed.open_files.size(); i++) {
            const uint32_t id = passed.open_files[i];
            if (holder.count(id) == 0 && first.open_files().count(id) != 0)
                first.only_passed.insert(id);
        }
    }
    const auto holder_of = [&](uint32_t open_file) {
        const auto found = holder.find(open_file);
        return found != holder.end() ? found->second : &first;
    };
    for (const auto &[id, open_file] : of_tree->of<image::OpenFile>())
        holder_of(id)->cares_for.insert(id);
    const auto spread = [&]<class R>(const auto &owner) {
        for (const R &record : std::exchange(first.of<R>(), {}))
            owner(record)->template of<R>().push_back(record);
    };
    spread.operator()<image::Timer>([&](const image::Timer &timer) {
        return timer.kind == image::TimerKind::timerfd ? holder_of(static_cast<uint32_t>(timer.id))
                                                       : &first;
    });
    spread.operator()<image::Lock>([&](const image::Lock &lock) {
        if (lock.kind != image::LockKind::posix)
            return holder_of(lock.open_file);
        const int owner = number_of(all_, lock.pid);
        return owner != nobody ? &all_[static_cast<size_t>(owner)]->saved : &first;
    });
    common.of_tree = of_tree;
    for (const auto &one : all_) {
        one->saved.owned = owned;
        one->saved.of_tree = of_tree;
        common.members[one->member->pid] = &one->saved;
    }
    return common;
}

// Gives the pidfds of members; what else stands for a pidfd is open already.
Result<void> Planner::give_pidfds(Newborn &kin, const Planning &own) const
{
    std::set<uint32_t> given;
    for (const image::Descriptor &descriptor : own.saved.descriptors()) {
        const auto pidfd = own.saved.of<image::Pidfd>().find(descriptor.open_file);
        if (pidfd == own.saved.of<image::Pidfd>().end() || pidfd->second.pid == 0 ||
            own.redirected.contains(descriptor.open_file) ||
            !given.insert(descriptor.open_file).second)
            continue;
        constexpr uint32_t flags = O_NONBLOCK | O_EXCL; // PIDFD_NONBLOCK, PIDFD_THREAD
        const int process = number_of(all_, pidfd->second.pid);
        if (process == nobody)
            return Error(EINVAL, fmt::format("descriptor {} is a pidfd of process {}, which is not "
                                             "in the image",
                                             descriptor.fd, pidfd->second.pid));
        kin.pidfds.push_back(
            {.fd = own.open_fds.at(descriptor.open_file),
             .process = process,
             .flags = own.saved.open_files().at(descriptor.open_file).flags & flags});
    }
    return {};
}

// Gives the files of /proc about members; those that the process opens later have a slot.
void Planner::give_proc_files(Newborn &kin, const Planning &own) const
{
    std::set<uint32_t> given;
    for (const image::Descriptor &descriptor : own.saved.descriptors()) {
        const uint32_t id = descriptor.open_file;
        const auto place = own.open_fds.find(id);
        const auto open_file = own.saved.open_files().find(id);
        if (place == own.open_fds.end() || open_file == own.saved.open_files().end() ||
            own.redirected.contains(id) || !given.insert(id).second)
            continue;
        const std::string_view path = own.saved.files().at(open_file->second.file).path;
        const std::optional<resources::AboutProcess> about = resources::about_process(path);
        const int process = about ? number_of(all_, about->pid) : nobody;
        if (process == nobody)
            continue;
        kin.proc_files.push_back({.fd = place->second,
                                  .process = process,
                                  .name = std::string(about->name),
                                  .flags = open_file->second.flags & ~creation_flags,
                                  .position = open_file->second.position});
    }
}

int Planner::floor() const
{
    int floor = 64;
    for (const auto &one : all_) {
        for (const image::Descriptor &d : one->saved.descriptors())
            floor = std::max(floor, static_cast<int>(d.fd) + 1);
        for (const image::EpollItem &item : one->saved.of<image::EpollItem>())
            floor = std::max(floor, static_cast<int>(item.fd) + 1);
    }
    return floor;
}

// A session of the tree's own gets its terminal again, if the tree has an end
// of it. If no process has the terminal open, it is opened through its master.
Result<void> Planner::give_terminal(Newborn &kin, int number, Planning &opening) const
{
    const image::Process &process = all_[static_cast<size_t>(number)]->saved.process;
    if (kin.session != number || process.tty.empty())
        return {};
    for (const auto &[id, open_file] : opening.saved.open_files()) {
        const auto file = opening.saved.files().find(open_file.file);
        const auto fd = opening.open_fds.find(id);
        if (file == opening.saved.files().end() || fd == opening.open_fds.end())
            continue;
        const auto terminal = opening.saved.of<image::Terminal>().find(open_file.file);
        if (file->second.kind == image::FileKind::terminal && file->second.path == process.tty) {
            kin.terminal = fd->second;
        } else if (terminal != opening.saved.of<image::Terminal>().end() &&
                   process.tty == fmt::format("/dev/pts/{}", terminal->second.pty_index)) {
            Result<Fd> slave = resources::open_other_end(fd->second, terminal->second);
            if (!slave)
                return slave.error();
            // Inherited, so it stays open until the processes are made.
            Result<int> kept = keep_open(opening, std::move(*slave), 0);
            if (!kept)
                return kept.error();
            kin.terminal = *kept;
        } else {
            continue;
        }
        kin.foreground = number_of(all_, process.foreground_pgid);
        return {};
    }
    return {};
}

void Planner::choose_ids()
{
    if (!options_.prefer_pid)
        return;
    const std::string why = options_.none_kept ? "others were faster to take the old ones"
                                               : choose_kept_ids(all_, options_);
    if (std::optional<std::string> warning = new_ids(all_, options_, why))
        tree_->warnings.push_back(std::move(*warning));
}

void Planner::note_clock()
{
    constexpr int64_t second = 1'000'000'000;
    if (clock_ns(CLOCK_MONOTONIC) / second < all_.front()->saved.process.cut_monotonic / second)
        tree_->notices.push_back(
            "the monotonic clock is behind that of the saved program (another "
            "boot or machine): waits until an absolute time of that clock last longer");
}

Result<std::unique_ptr<TreePlan>> Planner::plan()
{
    if (Result<void> done = read(); !done)
        return done.error();
    choose_ids();
    Result<std::vector<Newborn>> kin = relate(all_, options_);
    if (!kin)
        return kin.error();
    tree_->name = all_.front()->image->name();
    tree_->for_requester = options_.for_requester;
    tree_->lost = options_.lost;
    tree_->then_signal = options_.then_signal;
    tree_->cut_realtime = all_.front()->saved.process.cut_realtime;
    note_clock();
    const int above = floor();
    for (size_t i = 0; i < kin->size(); i++) {
        TreePlan::Process &process = tree_->processes.emplace_back();
        process.kin = std::move((*kin)[i]);
        if (i >= all_.size() || !all_[i]->image)
            continue;
        process.image = std::move(all_[i]->image);
        process.plan = std::make_unique<RestartPlan>();
        process.plan->floor = above;
        process.stopped = all_[i]->saved.process.stopped;
        process.stop_signal = stop_signal_of(all_[i]->saved);
        tree_->planned++;
    }
    std::vector<const Saved *> with_plan;
    for (size_t i = 0; i < all_.size(); i++)
        with_plan.push_back(tree_->processes[i].plan ? &all_[i]->saved : nullptr);
    if (Result<void> chosen = choose_copies(*tree_, with_plan, options_); !chosen)
        return chosen.error().within(tree_->name);
    // Processes that are to get a signal first do not resume by themselves either.
    TreePlan::Process &root = tree_->processes.front();
    const Saved &first = all_.front()->saved;
    tree_->rehearse = options_.rehearse;
    tree_->meets = tree_->planned > 1 || tree_->then_signal != 0 || first.process.stopped ||
                   !first.of<image::Ipc>().empty() || !first.of<image::KeptConnection>().empty() ||
                   tree_->rehearse;
    tree_->undo = !first.of<image::SemaphoreUndo>().empty();
    const Saved common = distribute();
    Planning opening{*root.image, common, options_, *root.plan, {}, {}, {}, {}, {}};
    if (Result<void> opened = open_files(opening); !opened)
        return opened.error().within(tree_->name);
    for (const auto &[id, fd] : opening.file_fds) {
        if (Result<void> taken = tree_->seals.take(common.files().at(id), fd); !taken)
            return taken.error().within(tree_->name);
    }
    tree_->meets = tree_->meets || !tree_->seals.empty();
    if (!first.of<image::Ipc>().empty()) {
        Result<std::unique_ptr<IpcObjects>> made =
            IpcObjects::make(first.of<image::Ipc>(), *root.image, tree_->notices);
        if (!made)
            return made.error().within(tree_->name);
        tree_->ipc = std::move(*made);
        if (options_.own_pid_namespace && !options_.rehearse)
            tree_->notices.emplace_back("its System V objects and message queues are made again in "
                                        "a namespace: processes outside do not share them");
    }
    MappedFiles mapped;
    for (size_t i = 0; i < all_.size(); i++) {
        TreePlan::Process &process = tree_->processes[i];
        if (!process.plan)
            continue;
        if (Result<void> given = give_terminal(process.kin, static_cast<int>(i), opening); !given)
            return given.error().within(tree_->name);
        // What the root opens itself (files of /proc that are about it), only the root has.
        const std::map<uint32_t, uint16_t> none;
        Planning own{*process.image,
                     all_[i]->saved,
                     options_,
                     *process.plan,
                     opening.redirected,
                     opening.open_fds,
                     i == 0 ? opening.open_slots : none,
                     opening.file_fds,
                     {},
                     {},
                     tree_->ipc.get(),
                     &mapped};
        Result<KeptMemory> kept = KeptMemory{};
        if (process.kin.is_copy) {
            const auto parent = static_cast<size_t>(process.kin.parent);
            kept = compare_with_parent(*process.image, own.saved, *tree_->processes[parent].image,
                                       all_[parent]->saved);
            if (!kept)
                return kept.error().within(tree_->name);
            own.kept = &*kept;
            process.plan->exe = tree_->processes[parent].plan->exe;
        }
        process.plan->redirected = opening.redirected;
        if (Result<void> given = give_pidfds(process.kin, own); !given)
            return given.error().within(tree_->name);
        give_proc_files(process.kin, own);
        if (Result<void> planned = plan_process_whole(own, !tree_->meets); !planned)
            return planned.error();
        for (const std::string &notice : process.plan->notices) {
            if (std::ranges::find(tree_->notices, notice) == tree_->notices.end())
                tree_->notices.push_back(notice);
        }
    }
    for (size_t i = 0; options_.rehearse && i < all_.size(); i++)
        tree_->processes[i].saved = std::make_unique<Saved>(std::move(all_[i]->saved));
    return std::move(tree_);
}

} // namespace

Result<std::unique_ptr<TreePlan>> plan_restart(const image::Snapshot &snapshot,
                                               const RestartOptions &options)
{
    return Planner(snapshot, options).plan();
}

} // namespace cryo::restore
