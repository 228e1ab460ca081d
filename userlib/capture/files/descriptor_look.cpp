// SPDX-License-Identifier: Apache-2.0
#include "capture/files/descriptor_look.hpp"

#include "capture/session/session.hpp"
#include "look/together.hpp"
#include "resources/kinds.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <linux/kcmp.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace cryo::capture {

using image::FileKind;
using resources::Seen;

namespace {

Result<Seen> look_at_descriptor(const Proc &proc, int fd)
{
    Seen seen;
    seen.fd = fd;
    const std::string name = "fd/" + std::to_string(fd);
    Result<std::string> link = proc.link(name);
    if (!link)
        return link.error();
    seen.link = *link;
    Result<std::string> info = proc.read("fdinfo/" + std::to_string(fd));
    if (!info)
        return info.error();
    seen.info = std::move(*info);
    std::string_view position = field(seen.info, "pos");
    std::string_view flags = field(seen.info, "flags");
    seen.position = take_number(position);
    seen.flags = static_cast<uint32_t>(take_number(flags, 8));
    seen.close_on_exec = (seen.flags & O_CLOEXEC) != 0;
    seen.flags &= ~static_cast<uint32_t>(O_CLOEXEC);
    if (stat(proc.path(name).c_str(), &seen.status) != 0)
        return Error::from_errno(proc.path(name), errno);
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

} // namespace

Result<void> DescriptorLook::take()
{
    if (Result<void> done = list(); !done)
        return done;
    if (Result<void> done = group(); !done)
        return done;
    if (Result<void> done = share(); !done)
        return done;
    for (Seen &seen : open_files_)
        seen.kind = resources::kind_of(seen);
    resources::rename_all(open_files_);
    return {};
}

Result<void> DescriptorLook::list()
{
    std::vector<std::vector<Seen>> of_each(holders_.size());
    Result<void> looked = together(holders_.size(), [&](size_t holder) -> Result<void> {
        Result<std::vector<int>> numbers = holders_[holder].proc.numbers("fd");
        if (!numbers)
            return numbers.error();
        for (int fd : *numbers) {
            if (holders_[holder].ours.count(fd) != 0)
                continue;
            Result<Seen> seen = look_at_descriptor(holders_[holder].proc, fd);
            if (!seen)
                return seen.error();
            seen->holder = holder;
            of_each[holder].push_back(std::move(*seen));
        }
        return {};
    });
    if (!looked)
        return looked;
    for (std::vector<Seen> &some : of_each)
        std::ranges::move(some, std::back_inserter(descriptors_));
    return {};
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
    for (const Seen &one : descriptors_) {
        const auto [at, fresh] = known.emplace(&one, static_cast<uint32_t>(open_files_.size()));
        if (failure != 0)
            return Error(failure, fmt::format("which descriptors share an open file: kcmp(2): {}; "
                                              "a container may forbid it (allow it, or "
                                              "CAP_SYS_PTRACE)",
                                              strerror(failure)));
        if (fresh) {
            Seen copy;
            copy.holder = one.holder;
            copy.fd = one.fd;
            copy.link = one.link;
            copy.status = one.status;
            copy.info = one.info;
            copy.position = one.position;
            copy.flags = one.flags;
            open_files_.push_back(std::move(copy));
        }
        index_[{one.holder, one.fd}] = at->second;
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
    return together(holders_.size(), [&](size_t holder) -> Result<void> {
        std::vector<int> numbers;
        for (const Seen *seen : targets[holder])
            numbers.push_back(seen->fd);
        Result<std::vector<Fd>> fds = holders_[holder].session.descriptors().get(numbers);
        if (!fds)
            return fds.error();
        for (size_t i = 0; i < fds->size(); i++) {
            Seen &seen = *targets[holder][i];
            seen.shared = std::move((*fds)[i]);
            if (!is_as_seen(seen))
                return Error(EPROTO, fmt::format("process {}: descriptor {} was exchanged while "
                                                 "it was looked at",
                                                 holders_[holder].proc.pid(), seen.fd));
        }
        return {};
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
        if (order < 0)
            return Error::from_errno("which descriptors share an open file with one in a message: "
                                     "kcmp(2)",
                                     errno);
        if (order == 0)
            return i;
    }
    Result<Seen> seen = look_at_descriptor(own_, fd.get());
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
