// SPDX-License-Identifier: Apache-2.0
// A global snapshot that is being made, and the removal of old ones.
#include "base/trust.hpp"
#include "coord/snapshot.hpp"
#include "coord/snapshot_removal.hpp"
#include "coord/snapshot_text.hpp"
#include "image/rank_groups.hpp"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

constexpr const char *lock_name = ".global_snapshot.lock";
constexpr int most_others = 16;                             // names that another user has taken
constexpr std::string_view abandoned_prefix = "abandoned."; // its number is not used again
constexpr int most_seq = 999'999'999;                       // the next one still fits

std::string now_text()
{
    return fmt::format("{:%a %b %e %H:%M:%S %Y}", fmt::localtime(time(nullptr)));
}

Result<std::string> new_mark()
{
    uint64_t bits[2];
    if (getrandom(bits, sizeof(bits), 0) != sizeof(bits))
        return Error::from_errno("a random mark", errno);
    return fmt::format("Cryo snapshot {:016x}{:016x}", bits[0], bits[1]);
}

// A checkpoint that was killed before its first metadata leaves nothing, or their beginning.
bool may_lack_metadata(const std::vector<std::string> &names)
{
    return std::ranges::all_of(names, [](const std::string &name) {
        return name == lock_name || name == ".global_snapshot_meta.data.tmp";
    });
}

// Locks a file that only we can open: others could lock the directory, which they may read.
Result<Fd> lock_directory(const Directory &directory)
{
    for (;;) {
        const std::string path = directory.path(lock_name);
        Fd lock(openat(directory.fd(), lock_name,
                       O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
        struct stat status = {};
        if (!lock || fstat(lock.get(), &status) != 0)
            return Error::from_errno(path, errno);
        if (!S_ISREG(status.st_mode))
            return Error(EINVAL, path + ": is no file, and so no lock; remove it");
        if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
            return Error(errno, fmt::format("{}: {}; another checkpoint is being written there",
                                            directory.path(), strerror(errno)));
        // The previous holder removes the file.
        if (fstat(lock.get(), &status) == 0 && status.st_nlink != 0)
            return lock;
    }
}

Result<void> check_new(const Directory &directory)
{
    const Result<std::vector<std::string>> names = directory.names();
    if (!names)
        return names.error();
    if (!may_lack_metadata(*names))
        return Error(ENOTEMPTY,
                     fmt::format("{}: has other files, and no metadata of snapshots; nothing in it "
                                 "was touched, choose another --name",
                                 directory.path()));
    return {};
}

} // namespace

Result<int> SnapshotStore::last_number() const
{
    int last = snapshots_.empty() ? -1 : snapshots_.rbegin()->first;
    const Result<std::vector<std::string>> names = directory_.names();
    if (!names)
        return names.error();
    for (const std::string &name : *names) {
        const int abandoned =
            name.starts_with(abandoned_prefix) ? seq_of(name.substr(abandoned_prefix.size())) : -1;
        const int seq = std::max({seq_of(name), unfinished_seq_of(name), abandoned});
        if (seq <= most_seq)
            last = std::max(last, seq);
    }
    if (last >= most_seq)
        return Error(EOVERFLOW, path() + ": has no numbers left; choose another --name");
    return last;
}

// Left by killed checkpoints, or by interrupted removals. The lock keeps other writers out.
void SnapshotStore::remove_unfinished()
{
    std::erase_if(snapshots_, [&](const auto &one) {
        const Snapshot &snapshot = one.second;
        return !snapshot.finished && remove_marked(directory_, snapshot.seq, snapshot.mark);
    });
}

// Opens a directory whose contents no other user can change, wherever it lies.
Result<Directory> SnapshotWriter::open_own(const std::string &path)
{
    Result<Directory> directory = Directory::open_or_make(path);
    if (!directory)
        return directory;
    if (Result<void> own = check_own(directory->fd(), path, "choose another --where or --name");
        !own)
        return own.error();
    return directory;
}

// Where all users may make directories, another one may have made the one with this name.
Result<Directory> SnapshotWriter::open_default(const std::string &base, int launcher)
{
    Result<Directory> first = open_own(base + "/" + default_reference(launcher));
    for (int number = 1; !first && number <= most_others; number++) {
        struct stat status = {};
        const std::string taken = base + "/" + default_reference(launcher);
        if (lstat(taken.c_str(), &status) != 0 || status.st_uid == geteuid())
            break;
        Result<Directory> next = open_own(fmt::format("{}/ompi_global_snapshot_{}.{}-{}.ckpt", base,
                                                      launcher, geteuid(), number));
        if (next)
            return next;
    }
    return first;
}

Result<SnapshotWriter> SnapshotWriter::locked(Result<Directory> directory)
{
    if (!directory)
        return directory.error();
    Result<Fd> lock = lock_directory(*directory);
    if (!lock)
        return lock.error();
    SnapshotWriter writer{SnapshotStore(std::move(*directory))};
    writer.lock_ = std::move(*lock);
    return writer;
}

Result<SnapshotWriter> SnapshotWriter::begin(const std::string &base, const std::string &reference,
                                             Snapshot about)
{
    Result<SnapshotWriter> writer = locked(reference.empty() ? open_default(base, about.launcher)
                                                             : open_own(base + "/" + reference));
    if (!writer)
        return writer;
    SnapshotStore &store = writer->store_;
    Result<void> known = store.load(Depth::heads);
    if (!known && known.error().code() == ENOENT)
        known = check_new(store.directory_);
    else if (!known)
        known = Error(known.error().code(),
                      fmt::format("{}: what is there cannot be known, and nothing was removed; "
                                  "repair it, or choose another --name",
                                  known.error().text()));
    if (!known)
        return known.error();
    store.remove_unfinished();
    const Result<int> last = store.last_number();
    if (!last)
        return last.error();
    Result<std::string> mark = new_mark();
    if (!mark)
        return mark.error();
    about.seq = *last + 1;
    about.mark = std::move(*mark);
    about.started = now_text();
    // First it is recorded as unfinished, so that it may be removed.
    store.snapshots_[about.seq] = about;
    if (Result<void> saved = store.save(); !saved)
        return saved.error();
    writer->about_ = std::move(about);
    Result<Directory> fresh = make_marked(store.directory_, writer->seq(), writer->about_.mark);
    if (!fresh) {
        static_cast<void>(remove_marked(store.directory_, writer->seq(), writer->about_.mark));
        return fresh.error();
    }
    writer->fresh_.emplace(std::move(*fresh));
    return writer;
}

SnapshotWriter::~SnapshotWriter()
{
    // What cannot be removed now is removed by the next checkpoint.
    if (fresh_ && store_.directory_.fd() >= 0)
        static_cast<void>(remove_marked(store_.directory_, about_.seq, about_.mark));
    unlock();
}

void SnapshotWriter::unlock()
{
    if (lock_)
        unlinkat(store_.directory_.fd(), lock_name, 0);
    lock_.reset();
}

std::string SnapshotWriter::directory() const
{
    return store_.directory_.path(unfinished_name(about_.seq));
}

std::string SnapshotWriter::level_name() const
{
    return about_.mark.substr(about_.mark.rfind(' ') + 1);
}

const Snapshot *SnapshotWriter::previous() const
{
    const Snapshot *newest = nullptr;
    for (const auto &[seq, snapshot] : store_.snapshots_) {
        if (snapshot.finished && snapshot.job == about_.job && !snapshot.mark.empty())
            newest = &snapshot;
    }
    return newest;
}

bool SnapshotWriter::has_image(int seq, uint32_t rank)
{
    const auto at = store_.snapshots_.find(seq);
    if (at == store_.snapshots_.end() || !at->second.finished)
        return false;
    if (at->second.counted != 0)
        return rank < at->second.counted;
    at->second.read();
    return at->second.image_of(rank) != nullptr;
}

Result<void> SnapshotWriter::put_token(const std::string &contents) const
{
    return fresh_->write(token_name, contents);
}

Result<void> SnapshotWriter::make_groups(uint32_t ranks) const
{
    for (uint32_t rank = 0; rank < ranks; rank += image::ranks_in_group) {
        if (const Result<Directory> made = fresh_->make(image::group_directory(rank)); !made)
            return made.error();
    }
    return {};
}

Result<void> check_image(const Directory &directory, const SnapshotImage &image)
{
    if (Result<void> own =
            check_own(directory.fd(), directory.path(), "it is not what was made here");
        !own)
        return own;
    const std::string path = directory.path(image.file);
    if (!is_plain_name(image.file))
        return Error(EINVAL, fmt::format("the image of rank {} cannot be called '{}'", image.rank,
                                         image.file));
    const Result<std::optional<struct stat>> status = directory.look(image.file);
    if (!status)
        return status.error();
    if (!status->has_value() || !S_ISREG((*status)->st_mode))
        return Error::from_errno(path, ENOENT);
    if (static_cast<uint64_t>((*status)->st_size) != image.bytes)
        return Error(EIO, fmt::format("{}: has {} bytes, not the {} that were written", path,
                                      (*status)->st_size, image.bytes));
    return {};
}

Result<void> describe_image(const Directory &directory, const SnapshotImage &image)
{
    const Result<void> there = check_image(directory, image);
    return there ? write_local_metadata(directory, image) : there;
}

Result<void> SnapshotWriter::complete(const SnapshotImage &image) const
{
    const Result<Directory> rank = fresh_->enter(rank_directory(image.rank));
    if (!rank)
        return rank.error();
    return image.is_described ? check_image(*rank, image) : describe_image(*rank, image);
}

Result<void> SnapshotWriter::commit(std::vector<SnapshotImage> images)
{
    if (!std::ranges::is_sorted(images, {}, &SnapshotImage::rank))
        std::ranges::sort(images, {}, &SnapshotImage::rank);
    for (const SnapshotImage &image : images) {
        if (image.is_described && images.size() > most_listed_ranks)
            continue; // its node has looked at it, too
        if (Result<void> done = complete(image); !done)
            return done;
    }
    Snapshot finished = about_;
    finished.images = std::move(images);
    return finish(std::move(finished));
}

Result<void> SnapshotWriter::commit_counted(uint32_t ranks, uint64_t bytes)
{
    for (uint32_t rank = 0; rank < ranks; rank += image::ranks_in_group) {
        const Result<Directory> group = fresh_->enter(image::group_directory(rank));
        if (!group && group.error().code() == ENOENT)
            break; // there are none
        if (Result<void> synced = group ? group->sync() : group.error(); !synced)
            return synced;
    }
    Snapshot finished = about_;
    finished.counted = ranks;
    finished.counted_bytes = bytes;
    return finish(std::move(finished));
}

Result<void> SnapshotWriter::finish(Snapshot finished)
{
    Result<void> done = fresh_->remove(token_name);
    if (done)
        done = fresh_->sync();
    if (done)
        done = store_.directory_.rename(unfinished_name(about_.seq), std::to_string(about_.seq));
    if (done)
        done = store_.directory_.sync();
    if (!done)
        return done;
    finished.completed = now_text();
    finished.finished = true;
    store_.snapshots_[about_.seq] = std::move(finished);
    done = store_.save();
    if (done) {
        fresh_.reset();
        return done;
    }
    // The metadata may be on the disk anyway: remove the snapshot only if they can be replaced.
    store_.snapshots_[about_.seq] = about_;
    if (!store_.save())
        fresh_.reset();
    return done;
}

Result<void> SnapshotWriter::add_sets(const std::string &redundancy, std::vector<SnapshotSet> sets)
{
    const auto at = store_.snapshots_.find(about_.seq);
    if (at == store_.snapshots_.end() || !at->second.finished)
        return Error(ENOENT, fmt::format("{}: has no snapshot {}", path(), about_.seq));
    at->second.redundancy = redundancy;
    at->second.sets = std::move(sets);
    Result<void> done = store_.save();
    if (done)
        return done;
    // Nodes remove their parity now, and the metadata may be on the disk anyway.
    at->second.redundancy.clear();
    at->second.sets.clear();
    static_cast<void>(store_.save());
    return done;
}

Result<SnapshotWriter> SnapshotWriter::open(const std::string &path)
{
    // Nothing is made of what is not there.
    const Result<Directory> there = Directory::open(path);
    if (!there)
        return there.error();
    Result<SnapshotWriter> writer = locked(open_own(path));
    if (!writer)
        return writer.error().code() == EWOULDBLOCK ? Error(EBUSY, writer.error().text())
                                                    : writer.error();
    if (Result<void> loaded = writer->store_.load(); !loaded)
        return loaded.error();
    return writer;
}

// The list comes first: a directory that is not in it is nobody's.
Result<void> SnapshotWriter::abandon(int seq)
{
    if (store_.find(seq) == nullptr)
        return Error(ENOENT, fmt::format("{}: has no finished snapshot {}", path(), seq));
    store_.snapshots_.erase(seq);
    Result<void> done = store_.save();
    if (!done)
        return done;
    const std::string name = std::to_string(seq);
    const std::string to = fmt::format("{}{}", abandoned_prefix, seq);
    done = store_.directory_.rename(name, to);
    for (int i = 2; !done && done.error().code() == EEXIST; i++)
        done = store_.directory_.rename(name, fmt::format("{}.{}", to, i));
    return done;
}

Result<void> SnapshotWriter::keep(unsigned count)
{
    std::vector<int> old;
    std::set<int> needed; // by what remains
    for (const auto &[seq, snapshot] : store_.snapshots_) {
        const bool is_ours = snapshot.series == about_.series &&
                             (!about_.series.empty() || snapshot.job == about_.job);
        if (snapshot.finished && is_ours && !snapshot.mark.empty())
            old.push_back(seq);
    }
    if (old.size() <= count)
        return {};
    old.resize(old.size() - count);
    for (const auto &[seq, snapshot] : store_.snapshots_) {
        if (snapshot.finished && !std::ranges::binary_search(old, seq))
            needed.merge(snapshot.needs());
    }
    std::erase_if(old, [&](int seq) { return needed.contains(seq); });
    if (old.empty())
        return {};
    for (const int seq : old)
        store_.snapshots_[seq].finished = false;
    // First they are recorded as unfinished, then they are removed.
    if (Result<void> done = store_.save(); !done)
        return done;
    Result<void> all;
    for (const int seq : old) {
        if (Result<void> gone = remove_marked(store_.directory_, seq, store_.snapshots_[seq].mark);
            !gone)
            all = gone;
        else
            store_.snapshots_.erase(seq);
    }
    return all;
}

} // namespace cryo::coord
