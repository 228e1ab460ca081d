// SPDX-License-Identifier: Apache-2.0
#include "capture/files/descriptor_look.hpp"

#include "capture/files/descriptor_listing.hpp"
#include "capture/session/session.hpp"
#include "look/same_open_file.hpp"
#include "look/together.hpp"
#include "resources/about_process.hpp"
#include "resources/kinds.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <functional>
#include <linux/kcmp.h>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace cryo::capture {

using image::FileKind;
using resources::Seen;

namespace {

// A hostile program is not stopped: /proc may have told of several files, and its agent may send
// another one, of which the program has no more than the name. What is read later must be the file
// that /proc told of, opened by the program as it told.
bool is_as_seen(const Seen &seen, const struct stat &now)
{
    const int flags = fcntl(seen.shared.get(), F_GETFL);
    return flags >= 0 && now.st_dev == seen.status.st_dev && now.st_ino == seen.status.st_ino &&
           (now.st_mode & S_IFMT) == (seen.status.st_mode & S_IFMT) &&
           ((static_cast<uint32_t>(flags) ^ seen.flags) & (O_ACCMODE | O_PATH)) == 0;
}

std::pair<size_t, int> place(const Seen &seen)
{
    return {seen.holder, seen.fd};
}

// Work of some microseconds for each of thousands.
Result<void> in_parts(std::vector<Seen> &all,
                      const std::function<Result<void>(std::span<Seen>)> &work)
{
    constexpr size_t most = 256;
    return together((all.size() + most - 1) / most, [&](size_t number) {
        const std::span<Seen> rest = std::span(all).subspan(number * most);
        return work(rest.first(std::min(most, rest.size())));
    });
}

bool is_refused_anyway(const Seen &seen)
{
    return resources::kind_of(seen) == FileKind::other && !resources::about_ended(seen);
}

Seen copy_of(const Seen &one)
{
    Seen copy;
    copy.holder = one.holder;
    copy.fd = one.fd;
    copy.link = one.link;
    copy.status = one.status;
    copy.early = one.early;
    copy.info = one.info;
    copy.position = one.position;
    copy.flags = one.flags;
    return copy;
}

} // namespace

Result<void> DescriptorLook::take()
{
    Result<void> looked = look();
    if (looked || !deceived_)
        return looked;
    // Two inodes of one mount may have the same number, as in two subvolumes of btrfs.
    for (Holder &holder : holders_)
        holder.early = nullptr;
    return look();
}

Result<void> DescriptorLook::look()
{
    descriptors_.clear();
    open_files_.clear();
    Result<void> done = list();
    if (done)
        done = group();
    if (done)
        done = share();
    if (!done)
        return done;
    done = in_parts(open_files_, [](std::span<Seen> part) -> Result<void> {
        for (Seen &seen : part)
            seen.kind = resources::kind_of(seen);
        return {};
    });
    if (!done)
        return done;
    resources::rename_all(open_files_);
    return in_parts(open_files_, [](std::span<Seen> part) -> Result<void> {
        resources::NamesLook names;
        for (Seen &seen : part)
            names.learn(seen);
        return {};
    });
}

// The numbers of the descriptors that there may be: all that there are, or those of the early look,
// which is_all() judges.
Result<std::vector<int>> DescriptorLook::numbers(const Holder &holder, bool early) const
{
    Result<std::vector<int>> all = early ? holder.early->numbers() : holder.proc.numbers("fd");
    if (all)
        std::erase_if(*all, [&](int fd) { return holder.ours.count(fd) != 0; });
    return all;
}

// The kernel tells how many there are, since Linux 6.2.
bool DescriptorLook::is_all(const Holder &holder, size_t found) const
{
    struct stat listed;
    if (stat(holder.proc.path("fd").c_str(), &listed) != 0)
        return false;
    const DescriptorListing listing(holder.proc);
    const auto ours =
        std::ranges::count_if(holder.ours, [&](int fd) { return listing.is_open(fd); });
    return listed.st_size == static_cast<off_t>(found) + ours;
}

Result<void> DescriptorLook::list()
{
    std::vector<std::vector<int>> wanted(holders_.size());
    Result<void> done = together(holders_.size(), [&](size_t i) -> Result<void> {
        Result<std::vector<int>> all = numbers(holders_[i], holders_[i].early != nullptr);
        if (!all)
            return all.error();
        wanted[i] = std::move(*all);
        return {};
    });
    if (done)
        done = look_at(wanted);
    if (!done)
        return done;
    std::vector<std::set<int>> found(holders_.size());
    std::vector<size_t> counts(holders_.size());
    for (const Seen &seen : descriptors_)
        counts[seen.holder]++;
    bool opened_since = false;
    for (size_t i = 0; i < holders_.size(); i++) {
        wanted[i].clear();
        if (holders_[i].early == nullptr || is_all(holders_[i], counts[i]))
            continue;
        Result<std::vector<int>> all = numbers(holders_[i], false);
        if (!all)
            return all.error();
        for (const Seen &seen : descriptors_) {
            if (seen.holder == i)
                found[i].insert(seen.fd);
        }
        std::erase_if(*all, [&](int fd) { return found[i].count(fd) != 0; });
        opened_since = opened_since || !all->empty();
        wanted[i] = std::move(*all);
    }
    if (!opened_since)
        return {};
    done = look_at(wanted);
    std::ranges::sort(descriptors_, {}, place);
    return done;
}

// Thousands of descriptors of one process are looked at by several threads. Adds what is open of
// these numbers, some for each holder.
Result<void> DescriptorLook::look_at(const std::vector<std::vector<int>> &numbers)
{
    struct Part {
        size_t holder;
        std::span<const int> numbers;
        size_t first; // its place in descriptors_
    };
    constexpr size_t most = 256;
    std::vector<Part> parts;
    size_t count = descriptors_.size();
    for (size_t holder = 0; holder < holders_.size(); holder++) {
        std::span<const int> rest = numbers[holder];
        while (!rest.empty()) {
            parts.push_back({holder, rest.first(std::min(most, rest.size())), count});
            count += parts.back().numbers.size();
            rest = rest.subspan(parts.back().numbers.size());
        }
    }
    descriptors_.resize(count);
    Result<void> done = together(parts.size(), [&](size_t i) -> Result<void> {
        const Part &part = parts[i];
        const Holder &holder = holders_[part.holder];
        const EarlyDescriptors none;
        const EarlyDescriptors &early = holder.early != nullptr ? *holder.early : none;
        const DescriptorListing listing(holder.proc);
        for (size_t k = 0; k < part.numbers.size(); k++) {
            Result<std::optional<Seen>> seen = early.look_at(part.numbers[k], listing);
            if (!seen)
                return seen.error();
            if (!*seen)
                continue;
            (*seen)->holder = part.holder;
            descriptors_[part.first + k] = std::move(**seen);
        }
        return {};
    });
    std::erase_if(descriptors_, [](const Seen &seen) { return seen.fd < 0; }); // closed since
    return done;
}

// Puts one entry for each open file into open_files_; group_of_ leads to it. kcmp(2) orders open
// files, so descriptors can be sorted by it; those of different inodes need no kcmp.
Result<void> DescriptorLook::group()
{
    int failure = 0;
    const auto before = [&](const Seen *a, const Seen *b) {
        const auto inode = [](const Seen &seen) {
            return std::pair(seen.status.st_dev, seen.status.st_ino);
        };
        if (inode(*a) != inode(*b))
            return inode(*a) < inode(*b);
        const long order = syscall(SYS_kcmp, holders_[a->holder].proc.pid(),
                                   holders_[b->holder].proc.pid(), KCMP_FILE, a->fd, b->fd);
        if (order < 0)
            failure = errno;
        return order == 1;
    };
    std::map<const Seen *, uint32_t, decltype(before)> known(before);
    open_files_.reserve(descriptors_.size());
    group_of_.clear();
    for (const Seen &one : descriptors_) {
        const auto [at, fresh] = known.emplace(&one, static_cast<uint32_t>(open_files_.size()));
        if (is_forbidden(failure))
            return group_by_trial();
        if (failure != 0)
            return Error(failure, fmt::format("which descriptors share an open file: kcmp(2): {}; "
                                              "a container may forbid it (allow it, or "
                                              "CAP_SYS_PTRACE)",
                                              strerror(failure)));
        if (fresh)
            open_files_.push_back(copy_of(one));
        group_of_.push_back(at->second);
    }
    return {};
}

// The descriptors that the agents pass on of those that share an inode, by their place among all.
Result<std::map<size_t, Fd>> DescriptorLook::doubtful()
{
    std::map<std::pair<dev_t, ino_t>, std::vector<size_t>> inodes;
    for (size_t i = 0; i < descriptors_.size(); i++) {
        const Seen &one = descriptors_[i];
        if (!is_refused_anyway(one))
            inodes[{one.status.st_dev, one.status.st_ino}].push_back(i);
    }
    std::vector<std::set<size_t>> places(holders_.size());
    for (const auto &[inode, all] : inodes) {
        for (const size_t i : all) {
            if (all.size() > 1)
                places[descriptors_[i].holder].insert(i);
        }
    }
    std::map<size_t, Fd> passed_on;
    for (size_t holder = 0; holder < holders_.size(); holder++) {
        std::vector<int> numbers;
        for (const size_t i : places[holder])
            numbers.push_back(descriptors_[i].fd);
        Result<std::vector<Fd>> fds = holders_[holder].session.descriptors().get(numbers);
        if (!fds)
            return fds.error();
        auto fd = fds->begin();
        for (const size_t i : places[holder])
            passed_on[i] = std::move(*fd++);
    }
    return passed_on;
}

// Like group(), where kcmp(2) may not be called.
Result<void> DescriptorLook::group_by_trial()
{
    open_files_.clear();
    group_of_.clear();
    Result<std::map<size_t, Fd>> passed_on = doubtful();
    if (!passed_on)
        return passed_on.error();
    std::map<std::pair<dev_t, ino_t>, std::vector<std::pair<size_t, uint32_t>>> known;
    for (size_t i = 0; i < descriptors_.size(); i++) {
        const Seen &one = descriptors_[i];
        auto found = static_cast<uint32_t>(open_files_.size());
        auto &alike = known[{one.status.st_dev, one.status.st_ino}];
        for (const auto &[place, number] : alike) {
            if (!passed_on->contains(i) || !passed_on->contains(place))
                continue;
            const Result<bool> same =
                is_same_open_file(passed_on->at(place).get(), passed_on->at(i).get());
            if (!same)
                return same.error();
            if (*same) {
                found = number;
                break;
            }
        }
        if (found == open_files_.size()) {
            alike.emplace_back(i, found);
            open_files_.push_back(copy_of(one));
        }
        group_of_.push_back(found);
    }
    return {};
}

// What the early looks have open is not needed any more: gives it back if the others would lack it.
void DescriptorLook::make_room()
{
    constexpr size_t others = 512;
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        EarlyDescriptors::infos() + open_files_.size() + others <= limit.rlim_cur)
        return;
    for (const Holder &holder : holders_) {
        if (holder.early != nullptr)
            holder.early->close_infos();
    }
}

Result<void> DescriptorLook::share()
{
    make_room();
    std::vector<std::vector<Seen *>> targets(holders_.size());
    for (Seen &seen : open_files_) {
        // The kernel may refuse to pass these on, and they are refused by name anyway.
        if (!is_refused_anyway(seen))
            targets[seen.holder].push_back(&seen);
    }
    Result<void> passed = together(holders_.size(), [&](size_t holder) -> Result<void> {
        std::vector<int> numbers;
        for (const Seen *seen : targets[holder])
            numbers.push_back(seen->fd);
        Result<std::vector<Fd>> fds = holders_[holder].session.descriptors().get(numbers);
        if (!fds)
            return fds.error();
        for (size_t i = 0; i < fds->size(); i++)
            targets[holder][i]->shared = std::move((*fds)[i]);
        return {};
    });
    if (!passed)
        return passed;
    std::atomic<bool> deceived = false;
    Result<void> confirmed = in_parts(open_files_, [&](std::span<Seen> part) -> Result<void> {
        resources::NamesLook names;
        for (Seen &seen : part) {
            if (!seen.shared)
                continue;
            struct stat now;
            if (fstat(seen.shared.get(), &now) != 0 || !is_as_seen(seen, now)) {
                deceived = deceived || seen.early;
                return Error(EPROTO, fmt::format("process {}: descriptor {} was exchanged while it "
                                                 "was looked at",
                                                 holder_of(seen).proc.pid(), seen.fd));
            }
            seen.status = now;
            if (Result<void> found = find_link(seen, names); !found)
                return found;
        }
        return {};
    });
    deceived_ = deceived;
    return confirmed;
}

// A file that has got a second link may be open by that one.
Result<void> DescriptorLook::find_link(Seen &seen, resources::NamesLook &names) const
{
    if (!seen.early || !resources::has_path(seen))
        return {};
    if ((S_ISDIR(seen.status.st_mode) || seen.status.st_nlink == 1) && names.leads_to(seen)) {
        seen.named = true;
        return {};
    }
    Result<std::string> link = DescriptorListing(holder_of(seen).proc).link(seen.fd);
    if (!link)
        return link.error();
    seen.link = std::move(*link);
    return {};
}

Result<size_t> DescriptorLook::add(Fd fd, const Seen &socket)
{
    struct stat status;
    if (fstat(fd.get(), &status) != 0)
        return Error::from_errno("looking at a descriptor in a message", errno);
    for (size_t i = 0; i < open_files_.size(); i++) {
        const Seen &known = open_files_[i];
        if (known.status.st_ino != status.st_ino || known.status.st_dev != status.st_dev)
            continue;
        const long order =
            syscall(SYS_kcmp, proc_of(known).pid(), own_.pid(), KCMP_FILE, known.fd, fd.get());
        if (order < 0 && !is_forbidden(errno))
            return Error::from_errno("which descriptors share an open file with one in a message: "
                                     "kcmp(2)",
                                     errno);
        Result<bool> same = order == 0;
        if (order < 0 && known.shared)
            same = is_same_open_file(known.shared.get(), fd.get());
        if (!same)
            return same.error();
        if (*same)
            return i;
    }
    Result<Seen> seen = DescriptorListing(own_).look_at(fd.get());
    if (!seen)
        return seen.error();
    seen->holder = socket.holder;
    seen->passed_in = socket.passed_in < 0 ? socket.fd : socket.passed_in;
    seen->shared = std::move(fd);
    seen->kind = resources::kind_of(*seen);
    open_files_.push_back(std::move(*seen));
    return open_files_.size() - 1;
}

const Seen &DescriptorLook::open_file_of(const Seen &descriptor) const
{
    return open_files_[group_of_[static_cast<size_t>(&descriptor - descriptors_.data())]];
}

const Seen *DescriptorLook::at(size_t holder, int fd) const
{
    const auto found = std::ranges::lower_bound(descriptors_, std::pair(holder, fd), {}, place);
    return found != descriptors_.end() && place(*found) == std::pair(holder, fd)
               ? &open_file_of(*found)
               : nullptr;
}

int DescriptorLook::first_number(const Seen &open_file) const
{
    int first = open_file.fd;
    for (const Seen &one : descriptors_) {
        if (one.holder == open_file.holder && &open_file_of(one) == &open_file)
            first = std::min(first, one.fd);
    }
    return first;
}

std::set<const Seen *> DescriptorLook::standard() const
{
    std::set<const Seen *> found;
    for (const Seen &one : descriptors_) {
        if (one.fd <= STDERR_FILENO)
            found.insert(&open_file_of(one));
    }
    return found;
}

std::set<pid_t> DescriptorLook::members(bool with_zombies) const
{
    std::set<pid_t> all = with_zombies ? zombies_ : std::set<pid_t>();
    for (const Holder &holder : holders_)
        all.insert(holder.proc.pid());
    return all;
}

} // namespace cryo::capture
