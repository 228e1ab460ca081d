// SPDX-License-Identifier: Apache-2.0
#include "capture/files/descriptor_look.hpp"

#include "capture/session/session.hpp"
#include "look/same_open_file.hpp"
#include "look/together.hpp"
#include "resources/kinds.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace cryo::capture {

using image::FileKind;
using resources::Seen;

namespace {

// The directories of /proc that tell of a process's descriptors. Names in them are found in half
// the time that a whole path takes.
class Listings
{
  public:
    explicit Listings(const Proc &proc) : proc_(proc), links_(open("fd")), infos_(open("fdinfo")) {}

    Result<Seen> look_at(int fd) const;

  private:
    Fd open(std::string_view name)
    {
        Fd opened(::open(proc_.path(name).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        not_opened_ = opened ? not_opened_ : errno;
        return opened;
    }
    Error failure(std::string_view where, int fd) const
    {
        const int why = not_opened_ != 0 ? not_opened_ : errno;
        return Error::from_errno(proc_.path(fmt::format("{}/{}", where, fd)), why);
    }
    Result<std::string> link(const char *name, int fd) const;
    Result<std::string> info(const char *name, int fd) const;

    const Proc &proc_;
    int not_opened_ = 0; // an errno
    Fd links_, infos_;
};

Result<std::string> Listings::link(const char *name, int fd) const
{
    char target[PATH_MAX];
    const ssize_t n = readlinkat(links_.get(), name, target, sizeof(target));
    if (n < 0)
        return failure("fd", fd);
    return std::string(target, static_cast<size_t>(n));
}

// The kernel returns such a file in one piece: a short read is its end.
Result<std::string> Listings::info(const char *name, int fd) const
{
    const Fd file(openat(infos_.get(), name, O_RDONLY | O_CLOEXEC));
    std::string text;
    char buffer[4096];
    ssize_t n = file ? 0 : -1;
    do {
        n = n < 0 ? n : read(file.get(), buffer, sizeof(buffer));
        if (n < 0)
            return failure("fdinfo", fd);
        text.append(buffer, static_cast<size_t>(n));
    } while (n == sizeof(buffer));
    return text;
}

Result<Seen> Listings::look_at(int fd) const
{
    Seen seen;
    seen.fd = fd;
    const std::string name = std::to_string(fd);
    Result<std::string> link = this->link(name.c_str(), fd);
    if (!link)
        return link.error();
    seen.link = std::move(*link);
    Result<std::string> info = this->info(name.c_str(), fd);
    if (!info)
        return info.error();
    seen.info = std::move(*info);
    std::string_view position = field(seen.info, "pos");
    std::string_view flags = field(seen.info, "flags");
    seen.position = take_number(position);
    seen.flags = static_cast<uint32_t>(take_number(flags, 8));
    seen.close_on_exec = (seen.flags & O_CLOEXEC) != 0;
    seen.flags &= ~static_cast<uint32_t>(O_CLOEXEC);
    if (fstatat(links_.get(), name.c_str(), &seen.status, 0) != 0)
        return failure("fd", fd);
    return seen;
}

// A hostile program is not stopped: /proc may have told of several files, and its agent may send
// another one, of which the program has no more than the name. What is read later must be the file
// that /proc told of, opened by the program as it told.
bool is_as_seen(const Seen &seen)
{
    struct stat now;
    const int flags = fcntl(seen.shared.get(), F_GETFL);
    return flags >= 0 && fstat(seen.shared.get(), &now) == 0 && now.st_dev == seen.status.st_dev &&
           now.st_ino == seen.status.st_ino &&
           ((static_cast<uint32_t>(flags) ^ seen.flags) & (O_ACCMODE | O_PATH)) == 0;
}

Seen copy_of(const Seen &one)
{
    Seen copy;
    copy.holder = one.holder;
    copy.fd = one.fd;
    copy.link = one.link;
    copy.status = one.status;
    copy.info = one.info;
    copy.position = one.position;
    copy.flags = one.flags;
    return copy;
}

} // namespace

Result<void> DescriptorLook::take()
{
    if (Result<void> done = list(); !done)
        return done;
    if (Result<void> done = group(); !done)
        return done;
    if (Result<void> done = share(); !done)
        return done;
    Result<void> known = together_in_parts(open_files_.size(), [&](size_t i) -> Result<void> {
        open_files_[i].kind = resources::kind_of(open_files_[i]);
        return {};
    });
    if (!known)
        return known;
    resources::rename_all(open_files_);
    return together_in_parts(open_files_.size(), [&](size_t i) -> Result<void> {
        resources::learn_named(open_files_[i]);
        return {};
    });
}

// Thousands of descriptors of one process are looked at by several threads.
Result<void> DescriptorLook::list()
{
    struct Part {
        size_t holder;
        std::vector<int> numbers;
        size_t first; // its place in descriptors_
    };
    constexpr ptrdiff_t most = 256;
    std::vector<std::vector<int>> numbers(holders_.size());
    Result<void> done = together(holders_.size(), [&](size_t holder) -> Result<void> {
        Result<std::vector<int>> all = holders_[holder].proc.numbers("fd");
        if (!all)
            return all.error();
        std::erase_if(*all, [&](int fd) { return holders_[holder].ours.count(fd) != 0; });
        numbers[holder] = std::move(*all);
        return {};
    });
    if (!done)
        return done;
    std::vector<Part> parts;
    size_t count = 0;
    for (size_t holder = 0; holder < holders_.size(); holder++) {
        const auto end = numbers[holder].end();
        for (auto at = numbers[holder].begin(); at != end; at += std::min(most, end - at)) {
            parts.push_back({holder, {at, at + std::min(most, end - at)}, count});
            count += parts.back().numbers.size();
        }
    }
    descriptors_.resize(count);
    return together(parts.size(), [&](size_t i) -> Result<void> {
        const Part &part = parts[i];
        const Listings listings(holders_[part.holder].proc);
        for (size_t k = 0; k < part.numbers.size(); k++) {
            Result<Seen> seen = listings.look_at(part.numbers[k]);
            if (!seen)
                return seen.error();
            seen->holder = part.holder;
            descriptors_[part.first + k] = std::move(*seen);
        }
        return {};
    });
}

// Puts one entry for each open file into open_files_; index_ leads to it. kcmp(2) orders open
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
        index_[{one.holder, one.fd}] = at->second;
    }
    return {};
}

// The descriptors that the agents pass on of those that share an inode, by their place among all.
Result<std::map<size_t, Fd>> DescriptorLook::doubtful()
{
    std::map<std::pair<dev_t, ino_t>, std::vector<size_t>> inodes;
    for (size_t i = 0; i < descriptors_.size(); i++) {
        const Seen &one = descriptors_[i];
        if (resources::kind_of(one) != FileKind::other) // else it is refused anyway
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
    index_.clear();
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
        index_[{one.holder, one.fd}] = found;
    }
    return {};
}

Result<void> DescriptorLook::share()
{
    std::vector<std::vector<Seen *>> targets(holders_.size());
    for (Seen &seen : open_files_) {
        // The kernel may refuse to pass these on, and they are refused by name anyway.
        if (resources::kind_of(seen) != FileKind::other)
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
    return together_in_parts(open_files_.size(), [&](size_t i) -> Result<void> {
        const Seen &seen = open_files_[i];
        if (!seen.shared || is_as_seen(seen))
            return {};
        return Error(EPROTO, fmt::format("process {}: descriptor {} was exchanged while it was "
                                         "looked at",
                                         holder_of(seen).proc.pid(), seen.fd));
    });
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
    Result<Seen> seen = Listings(own_).look_at(fd.get());
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
    return *at(descriptor.holder, descriptor.fd);
}

const Seen *DescriptorLook::at(size_t holder, int fd) const
{
    const auto found = index_.find({holder, fd});
    return found != index_.end() ? &open_files_[found->second] : nullptr;
}

int DescriptorLook::first_number(const Seen &open_file) const
{
    int first = open_file.fd;
    for (const auto &[place, index] : index_) {
        if (place.first == open_file.holder && &open_files_[index] == &open_file)
            first = std::min(first, place.second);
    }
    return first;
}

std::set<const Seen *> DescriptorLook::standard() const
{
    std::set<const Seen *> found;
    for (const auto &[place, index] : index_) {
        if (place.second <= STDERR_FILENO)
            found.insert(&open_files_[index]);
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
