// SPDX-License-Identifier: Apache-2.0
#include "coord/local_level.hpp"

#include "base/printable.hpp"
#include "coord/image_copy.hpp"
#include "coord/snapshot.hpp"
#include "redundancy/description.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

constexpr const char *label_name = "level";
constexpr const char *committed_name = "committed";
constexpr const char *claim_name = "node";
constexpr size_t most_label = 256;
constexpr const char *way_out = "choose another directory for local images";

std::string top_of(const std::string &base, uid_t user)
{
    return fmt::format("{}/cryo-{}", base, user);
}

int lock(int fd, int how)
{
    int failed;
    while ((failed = flock(fd, how)) != 0 && errno == EINTR) {
    }
    return failed;
}

int64_t nanoseconds_of(const timespec &time)
{
    return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

// The file that makes it a level goes last: what a removal that is killed leaves is removed by the
// next one, and is not committed any more.
void remove_level(const Directory &top, const std::string &name)
{
    const Result<Directory> level = top.enter(name);
    if (!level || !level->remove(committed_name))
        return;
    const Result<std::vector<std::string>> names = level->names();
    bool is_bare = bool(names);
    for (const std::string &one : names ? *names : std::vector<std::string>()) {
        if (one == label_name)
            continue;
        if (const Result<Directory> rank = level->enter(one); rank)
            rank->clear();
        is_bare = level->remove(one) && is_bare;
    }
    if (is_bare && level->remove(label_name))
        static_cast<void>(top.remove(name));
}

} // namespace

std::string base_of_node(std::string base, const std::string &node)
{
    constexpr std::string_view stands_for_it = "%N";
    for (size_t at = 0; (at = base.find(stands_for_it, at)) != std::string::npos; at += node.size())
        base.replace(at, stands_for_it.size(), node);
    return base;
}

std::string local_rank_directory(const std::string &base, uid_t user, const std::string &name,
                                 uint32_t rank)
{
    return fmt::format("{}/{}/{}", top_of(base, user), name, rank_directory(rank));
}

Result<LocalLevel> LocalLevel::begin(const std::string &base, const std::string &name,
                                     const std::string &job)
{
    const Result<Directory> top = Directory::open_or_make(top_of(base, geteuid()));
    if (!top)
        return top.error();
    if (Result<void> own = check_own(top->fd(), top->path(), way_out); !own)
        return own.error();
    // One that was there already may be open to others, who could lock it and hold daemons up.
    if (fchmod(top->fd(), 0700) != 0)
        return Error::from_errno(top->path(), errno);
    // Until the new one has its lock, retire_levels() does not look.
    if (lock(top->fd(), LOCK_SH) != 0)
        return Error::from_errno(top->path(), errno);
    Result<Directory> level = top->make(name);
    if (!level && level.error().code() == EEXIST)
        level = top->enter(name);
    if (!level)
        return level.error();
    if (Result<void> own = check_own(level->fd(), level->path(), way_out); !own)
        return own.error();
    const std::string path = level->path(label_name);
    Fd label(openat(level->fd(), label_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                    0600));
    if (!label || lock(label.get(), LOCK_SH | LOCK_NB) != 0)
        return Error::from_errno(path, errno);
    const ssize_t n = pwrite(label.get(), job.data(), job.size(), 0);
    if (n != static_cast<ssize_t>(job.size()))
        return Error::from_errno(path, n < 0 ? errno : ENOSPC);
    return LocalLevel(std::move(*level), std::move(label));
}

Result<std::string> LocalLevel::make_rank(uint32_t rank) const
{
    const Result<Directory> made = directory_.make(rank_directory(rank));
    if (!made)
        return made.error();
    return made->path();
}

Result<void> LocalLevel::claim(const std::string &node) const
{
    const std::string path = directory_.path(claim_name);
    const Fd made(openat(directory_.fd(), claim_name,
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made && errno == EEXIST) {
        const Result<std::string> other = directory_.read(claim_name, most_label);
        return Error(EEXIST,
                     fmt::format("{}: node {} would have its images and those of node {} there; "
                                 "name a directory that each node has for itself (in --local, %N "
                                 "stands for the node's name)",
                                 directory_.path(), node, other ? *other : "?"));
    }
    if (!made)
        return Error::from_errno(path, errno);
    const ssize_t n = pwrite(made.get(), node.data(), node.size(), 0);
    if (n != static_cast<ssize_t>(node.size()))
        return Error::from_errno(path, n < 0 ? errno : ENOSPC);
    return {};
}

// Nothing is synced: after a crash of the node a copy is judged by its checksum.
Result<void> LocalLevel::commit() const
{
    const Fd made(
        openat(directory_.fd(), committed_name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made)
        return Error::from_errno(directory_.path(committed_name), errno);
    return {};
}

void retire_levels(const std::string &base, const std::string &job, unsigned keep)
{
    const Result<Directory> top = Directory::open(top_of(base, geteuid()));
    if (!top || !check_own(top->fd(), top->path(), way_out))
        return;
    std::vector<LevelThere> all;
    std::map<std::string, Fd> locks; // until the end nobody begins to use what is removed
    if (lock(top->fd(), LOCK_EX) != 0)
        return;
    const Result<std::vector<std::string>> names = top->names();
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        const Result<Directory> level = top->enter(name);
        if (!level)
            continue;
        Fd label(openat(level->fd(), label_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!label)
            continue; // not one of Cryo's
        const Result<std::string> owner = level->read(label_name, most_label);
        const Result<std::optional<struct stat>> mark = level->look(committed_name);
        if (!owner || !mark)
            continue;
        const Result<std::optional<struct stat>> parity = level->look(redundancy::parity_name);
        const bool committed = mark->has_value();
        all.push_back({.name = name,
                       .job = *owner,
                       .when = committed ? nanoseconds_of((*mark)->st_mtim) : 0,
                       .committed = committed,
                       .in_use = lock(label.get(), LOCK_EX | LOCK_NB) != 0,
                       .has_parity = parity && parity->has_value()});
        locks.emplace(name, std::move(label));
    }
    const std::vector<std::string> going = retired(std::move(all), job, keep);
    std::erase_if(locks, [&](const auto &one) { // a restart may read what stays
        return std::ranges::find(going, one.first) == going.end();
    });
    lock(top->fd(), LOCK_UN);
    for (const std::string &name : going)
        remove_level(*top, name);
}

std::vector<std::string> retired(std::vector<LevelThere> all, const std::string &job, unsigned keep)
{
    std::sort(all.begin(), all.end(), [](const LevelThere &a, const LevelThere &b) {
        return a.when != b.when ? a.when > b.when : a.name < b.name;
    });
    std::set<std::string> running; // a job's daemons use its last level
    for (const LevelThere &one : all) {
        if (one.in_use)
            running.insert(one.job);
    }
    unsigned own = 0;
    unsigned others = 0;
    bool has_sets = false;  // a later one of this job has parity
    bool have_sets = false; // a later one of the ended jobs has: a restarted job is another one
    std::vector<std::string> names;
    for (LevelThere &one : all) {
        if (!one.committed) {
            if (!one.in_use)
                names.push_back(std::move(one.name));
            continue;
        }
        const bool is_own = one.job == job;
        const bool is_theirs = !is_own && running.contains(one.job);
        bool &is_known = is_own ? has_sets : have_sets;
        const bool is_last_set = !is_theirs && one.has_parity && !is_known;
        is_known = is_known || is_last_set;
        const bool stays = one.in_use || is_theirs || is_last_set || (is_own ? own : others) < keep;
        if (stays && !is_theirs)
            (is_own ? own : others)++;
        if (!stays)
            names.push_back(std::move(one.name));
    }
    return names;
}

bool is_trouble_of_the_disk(int error)
{
    constexpr int troubles[] = {ENOSPC, EDQUOT, EFBIG, EIO, EROFS, ESTALE};
    return std::ranges::find(troubles, error) != std::end(troubles);
}

uint64_t room_in(const std::string &base)
{
    struct statvfs status = {};
    return statvfs(base.c_str(), &status) == 0 ? uint64_t(status.f_bavail) * status.f_frsize : 0;
}

// What comes and goes all the time is less than a quarter.
bool has_more_room(uint64_t now, uint64_t then)
{
    return now > then && now - then > then / 4;
}

Result<NearLevel> hold_level(const std::string &path, const Trust &trust)
{
    // BASE/cryo-UID, which nobody else must have made; below it no link is followed.
    const auto [top_path, level_name] = split_path(path);
    const Result<Directory> top = Directory::open(top_path);
    if (!top)
        return top.error();
    if (Result<void> good = trust.check(top->fd(), top->path()); !good)
        return good.error();
    Result<Directory> level = top->enter(level_name);
    if (!level)
        return level.error();
    if (Result<void> good = trust.check(level->fd(), level->path()); !good)
        return good.error();
    Fd label(openat(level->fd(), label_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!label)
        return Error::from_errno(level->path(label_name), errno);
    if (lock(label.get(), LOCK_SH | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? Error(ENOENT, level->path() + ": is being removed")
                                    : Error::from_errno(level->path(label_name), errno);
    return NearLevel{std::move(*level), std::move(label)};
}

Result<NearLevel> hold_level_of(const std::string &node, const std::string &path,
                                const Trust &trust)
{
    Result<NearLevel> level = hold_level(path, trust);
    if (!level)
        return level;
    const Directory &directory = level->directory;
    const Result<std::string> claim = directory.read(claim_name, most_label);
    if (!claim && claim.error().code() == ENOENT) // without sets nothing is claimed
        return level;
    if (!claim)
        return claim.error();
    if (Result<void> good = check_trust(directory, claim_name, trust); !good)
        return good.error();
    // A second daemon of one name has a number behind it (Members::add), and says its name only.
    if (*claim != node.substr(0, node.find('/')))
        return Error(ENOENT,
                     printable_message(fmt::format(
                         "{}: is here that of node {}, not of {}, which can bring its own from "
                         "where it runs (ompi-restart --bring)",
                         path, *claim, node)));
    return level;
}

Result<NearCopy> find_copy(const LocalCopy &copy, const Trust &trust)
{
    const auto [level_path, rank_name] = split_path(copy.directory);
    Result<NearLevel> level = hold_level(level_path, trust);
    if (!level)
        return level.error();
    const Result<Directory> rank = level->directory.enter(rank_name);
    if (!rank)
        return rank.error();
    if (Result<void> good = check_trust(*rank, copy.file, trust); !good)
        return good.error();
    const Result<ImageCopy> found = measure_image(*rank, copy.file);
    if (!found)
        return found.error();
    if (found->bytes != copy.bytes || found->checksum != copy.checksum)
        return Error(EBADMSG, rank->path(copy.file) + ": is not what was saved (checksum)");
    return NearCopy{rank->path(copy.file), std::move(level->lock)};
}

} // namespace cryo::coord
