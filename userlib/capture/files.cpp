// SPDX-License-Identifier: Apache-2.0
// The table itself: the descriptors, which of them share an open file, and what each refers to.
#include "capture/files.hpp"

#include "capture/session.hpp"
#include "look/together.hpp"
#include "resources/locks.hpp"
#include "resources/owner.hpp"
#include "resources/paths.hpp"
#include "resources/socket/sockets.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::capture {

using image::FileKind;
using resources::gone;

namespace {

int64_t nanoseconds(const timespec &t)
{
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

bool has_own_file(FileKind kind)
{
    return resources::kind(kind).has_own_file;
}

} // namespace

Result<Files::Seen> Files::look(const Proc &proc, int fd)
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

// Why an open file cannot be saved, judged by its kind alone; empty: it can.
std::string_view Files::refusal(const Seen &seen, const resources::Sockets &sockets) const
{
    if ((seen.flags & O_PATH) != 0)
        return is_named(seen) ? "" : "an O_PATH reference to something without a name,";
    if (const std::string_view why = passed_refusal(seen, sockets); !why.empty())
        return why;
    const resources::Kind &kind = resources::kind(seen.kind);
    return kind.refused != nullptr ? kind.refused(seen) : "";
}

uint32_t Files::mapped(const std::string &path, uint64_t device, uint64_t inode)
{
    // Cached, because processes have many mappings of the same files.
    const std::tuple key(path, device, inode);
    if (const auto known = mapped_.find(key); known != mapped_.end())
        return known->second;
    Seen seen;
    seen.link = path;
    // The file that the name leads to now must be the one that is mapped.
    if (stat(path.c_str(), &seen.status) != 0 || seen.status.st_ino != inode)
        return mapped_[key] = mapped_elsewhere(path, device, inode);
    seen.kind = resources::kind_of(seen);
    const uint32_t file = file_of(seen);
    if (!has_own_file(seen.kind))
        mapped_.emplace(key, file);
    return file;
}

uint32_t Files::removed_directory(const std::string &link, const struct stat &status)
{
    Seen seen;
    seen.link = link;
    seen.status = status;
    seen.kind = FileKind::directory;
    return link.ends_with(gone) && !is_named(seen) ? file_of(seen) : 0;
}

uint32_t Files::file_of(const Seen &seen)
{
    const std::pair<uint64_t, uint64_t> key(seen.status.st_dev, seen.status.st_ino);
    if (!has_own_file(seen.kind)) {
        if (const auto found = by_inode_.find(key); found != by_inode_.end())
            return found->second;
    }
    image::File file;
    file.id = static_cast<uint32_t>(files_.size() + 1);
    std::string path = seen.link;
    if (path.ends_with(gone) && !is_named(seen)) {
        path.resize(path.size() - gone.size());
        file.flags |= image::kFileUnlinked;
    }
    file.kind = seen.kind;
    if (file.kind == FileKind::memfd)
        file.link = strings_.keep(path.substr(std::string_view("/memfd:").size()));
    file.path = strings_.keep(std::move(path));
    file.device = seen.status.st_dev;
    file.inode = seen.status.st_ino;
    file.mode = seen.status.st_mode;
    file.uid = owner_of(seen);
    file.gid = seen.status.st_gid;
    file.links = static_cast<uint32_t>(seen.status.st_nlink);
    file.size = static_cast<uint64_t>(seen.status.st_size);
    file.modified = nanoseconds(seen.status.st_mtim);
    file.device_number = seen.status.st_rdev;
    files_.push_back(file);
    if (!has_own_file(seen.kind))
        by_inode_[key] = file.id;
    return file.id;
}

void Files::add_open_file(Seen &seen)
{
    image::OpenFile record;
    record.id = seen.open_file = static_cast<uint32_t>(open_files_.size() + 1);
    record.file = file_of(seen);
    record.flags = seen.flags;
    record.position = seen.position;
    open_files_.push_back(record);
}

// Puts one entry for each open file into seen_; descriptor_ maps to it. kcmp(2) orders open files,
// so descriptors can be sorted by it; those of different inodes need no kcmp.
Result<void> Files::group(const std::vector<Seen> &all)
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
    for (const Seen &one : all) {
        const auto [at, fresh] = known.emplace(&one, static_cast<uint32_t>(seen_.size()));
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
            seen_.push_back(std::move(copy));
        }
        descriptor_[{one.holder, one.fd}] = at->second;
        image::Descriptor descriptor;
        descriptor.fd = static_cast<uint32_t>(one.fd);
        descriptor.close_on_exec = one.close_on_exec;
        descriptors_[one.holder].push_back(descriptor);
    }
    return {};
}

// A hostile program is not stopped: /proc may have told of several files, and its agent may send
// another one, of which the program has no more than the name. What is read later must be the file
// that /proc told of, opened by the program as it told.
bool Files::is_as_seen(const Seen &seen)
{
    struct stat now;
    const int flags = fcntl(seen.shared.get(), F_GETFL);
    return flags >= 0 && fstat(seen.shared.get(), &now) == 0 && now.st_dev == seen.status.st_dev &&
           now.st_ino == seen.status.st_ino &&
           ((static_cast<uint32_t>(flags) ^ seen.flags) & (O_ACCMODE | O_PATH)) == 0;
}

Result<void> Files::share(std::vector<Seen> &all) const
{
    std::vector<std::vector<Seen *>> targets(holders_.size());
    for (Seen &seen : all) {
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

Result<void> Files::read_descriptors(std::vector<Holder> holders, std::set<pid_t> zombies)
{
    holders_ = std::move(holders);
    zombies_ = std::move(zombies);
    descriptors_.resize(holders_.size());
    std::vector<std::vector<Seen>> of_each(holders_.size());
    Result<void> looked = together(holders_.size(), [&](size_t holder) -> Result<void> {
        Result<std::vector<int>> numbers = holders_[holder].proc.numbers("fd");
        if (!numbers)
            return numbers.error();
        for (int fd : *numbers) {
            if (holders_[holder].ours.count(fd) != 0)
                continue;
            Result<Seen> seen = look(holders_[holder].proc, fd);
            if (!seen)
                return seen.error();
            seen->holder = holder;
            of_each[holder].push_back(std::move(*seen));
        }
        return {};
    });
    if (!looked)
        return looked;
    std::vector<Seen> all;
    for (std::vector<Seen> &some : of_each)
        std::ranges::move(some, std::back_inserter(all));
    if (Result<void> done = group(all); !done)
        return done;
    if (Result<void> done = share(seen_); !done)
        return done;
    for (Seen &seen : seen_)
        seen.kind = resources::kind_of(seen);
    resources::rename_all(seen_);
    resources::Sockets sockets(*this, options_.close_sockets);
    if (Result<void> done = sockets.look(); !done)
        return done;
    for (Seen &seen : seen_) {
        const std::string_view why = refusal(seen, sockets);
        if (why.empty())
            add_open_file(seen);
        else
            refuse(seen, fmt::format("{} {}", why, seen.link), "close it before the checkpoint");
    }
    for (size_t holder = 0; holder < holders_.size(); holder++) {
        for (image::Descriptor &descriptor : descriptors_[holder]) {
            const std::pair<size_t, int> place(holder, static_cast<int>(descriptor.fd));
            descriptor.open_file = seen_[descriptor_[place]].open_file;
        }
    }
    refuse_files_about_processes();
    for (const Seen &one : all) {
        const Seen &representative = seen_[descriptor_[{one.holder, one.fd}]];
        if (representative.open_file == 0 || (one.flags & O_PATH) != 0)
            continue;
        resources::save_locks(*this, one, representative);
    }

    for (const Seen &seen : seen_) {
        if (seen.open_file == 0 || (seen.flags & O_PATH) != 0)
            continue;
        Result<void> done = resources::save_owner(*this, seen, record_of(seen));
        const resources::Kind &kind = resources::kind(seen.kind);
        if (done && (seen.kind == FileKind::regular || seen.kind == FileKind::memfd))
            done = note_contents(seen);
        else if (done && kind.save != nullptr)
            done = kind.save(*this, seen);
        if (!done)
            return done;
        note_access(seen);
    }
    Result<void> done = resources::settle_all(*this);
    if (done)
        done = resources::save_all_together(*this);
    if (done)
        done = sockets.save();
    // We must not hold the program's open files any longer than it is stopped.
    seen_.clear();
    holders_.clear();
    session_peers_ = {};
    return done;
}

} // namespace cryo::capture
