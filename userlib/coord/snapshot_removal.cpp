// SPDX-License-Identifier: Apache-2.0
#include "coord/snapshot_removal.hpp"

#include "base/trust.hpp"
#include "coord/snapshot.hpp"
#include "coord/snapshot_text.hpp"
#include "image/rank_groups.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <functional>
#include <string_view>
#include <sys/file.h>

namespace cryo::coord {

namespace {

constexpr const char *mark_name = ".cryo-snapshot";
constexpr const char *unfinished_mark = "..cryo-snapshot.tmp"; // while Directory::write() writes it
constexpr size_t most_mark = 128;

Error foreign(const std::string &path)
{
    return {ENOTEMPTY, path + ": was not made by Cryo; it stays, and the snapshot's directory too"};
}

// Whether a daemon makes such a file in a rank's directory, complete or not.
bool is_of_a_rank(std::string_view name)
{
    if (name.starts_with('.') && name.ends_with(".tmp"))
        name.remove_prefix(1);
    return name.starts_with("cryo_context.") || name == local_metadata_name ||
           name == fmt::format("{}.tmp", local_metadata_name);
}

bool is_rank_directory(std::string_view name)
{
    return rank_of(name).has_value();
}

bool is_group(std::string_view name)
{
    return name.starts_with(image::group_prefix) &&
           seq_of(name.substr(image::group_prefix.size())) >= 0;
}

bool is_of_a_snapshot(std::string_view name)
{
    return name == mark_name || name == token_name || name == fmt::format(".{}.tmp", token_name);
}

// Where images are made again, or brought.
bool is_work(std::string_view name)
{
    return name == healed_name || name == brought_name;
}

bool is_of_work(std::string_view name)
{
    constexpr std::string_view before = "node.";
    return is_rank_directory(name) ||
           (name.starts_with(before) && seq_of(name.substr(before.size())) >= 0);
}

// EBUSY: a healing is under way, and would put images into what is being removed.
Result<void> check_work(const Directory &snapshot, const std::string &name)
{
    const Result<Directory> work = snapshot.enter(name);
    if (!work)
        return work.error().code() == ENOTDIR ? foreign(snapshot.path(name)) : work.error();
    if (Result<void> own = check_own(work->fd(), work->path(), "its owner can remove it"); !own)
        return own;
    if (flock(work->fd(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return Error(EBUSY, work->path() + ": an ompi-restart makes images there; the snapshot "
                                           "stays until a checkpoint after the end of that");
    const Result<std::vector<std::string>> names = work->names();
    if (!names)
        return names.error();
    for (const std::string &one : *names) {
        if (!is_of_work(one))
            return foreign(work->path(one));
    }
    return {};
}

Result<void> remove_work(const Directory &snapshot, const std::string &name)
{
    if (const Result<Directory> work = snapshot.enter(name); work)
        work->clear();
    return snapshot.remove(name);
}

// Called for every file of a snapshot, and for directories of work.
using Take = std::function<Result<void>(const Directory &, const std::string &)>;

Result<void> each_file_of(const Directory &in, const std::string &rank, const Take &take)
{
    const Result<Directory> directory = in.enter(rank);
    const Result<std::vector<std::string>> files =
        directory ? directory->names() : directory.error();
    if (!files)
        return files.error();
    for (const std::string &file : *files) {
        if (Result<void> done = take(*directory, file); !done)
            return done;
    }
    return {};
}

// Of the ranks that lie together in a directory, which has nothing else.
Result<void> each_file_of_group(const Directory &snapshot, const std::string &name,
                                const Take &take)
{
    const Result<Directory> group = snapshot.enter(name);
    const Result<std::vector<std::string>> ranks = group ? group->names() : group.error();
    if (!ranks)
        return ranks.error();
    for (const std::string &rank : *ranks) {
        Result<void> done =
            is_rank_directory(rank) ? each_file_of(*group, rank, take) : foreign(group->path(rank));
        if (!done)
            return done;
    }
    return {};
}

Result<void> each_file(const Directory &snapshot, const Take &take)
{
    const Result<std::vector<std::string>> all = snapshot.names();
    if (!all)
        return all.error();
    for (const std::string &name : *all) {
        Result<void> done = is_rank_directory(name) ? each_file_of(snapshot, name, take)
                            : is_group(name)        ? each_file_of_group(snapshot, name, take)
                                                    : take(snapshot, name);
        if (!done)
            return done;
    }
    return {};
}

// A directory of a rank, or of several, whose files are gone.
Result<void> remove_emptied(const Directory &snapshot, const std::string &name)
{
    if (is_group(name)) {
        const Result<Directory> group = snapshot.enter(name);
        const Result<std::vector<std::string>> ranks = group ? group->names() : group.error();
        if (!ranks)
            return ranks.error();
        for (const std::string &rank : *ranks) {
            if (Result<void> gone = group->remove(rank); !gone)
                return gone;
        }
    }
    return snapshot.remove(name);
}

// Nothing is removed if there is any other file among ours.
Result<void> check_contents(const Directory &snapshot)
{
    return each_file(snapshot, [&](const Directory &in, const std::string &name) -> Result<void> {
        if (in.fd() == snapshot.fd() && is_work(name))
            return check_work(snapshot, name);
        const bool ours = in.fd() == snapshot.fd() ? is_of_a_snapshot(name) : is_of_a_rank(name);
        const Result<std::optional<struct stat>> status = in.look(name);
        if (!status)
            return status.error();
        if (!ours || (status->has_value() && !S_ISREG((*status)->st_mode)))
            return foreign(in.path(name));
        return {};
    });
}

// ENOENT: it has none.
Result<void> check_mark(const Directory &snapshot, const std::string &mark)
{
    const Result<std::string> found = snapshot.read(mark_name, most_mark);
    if (!found)
        return found.error();
    if (mark.empty() || *found != mark + "\n")
        return foreign(snapshot.path());
    return {};
}

// The mark is removed last, so that an interrupted removal can be repeated.
Result<void> remove_contents(const Directory &snapshot)
{
    if (Result<void> ours = check_contents(snapshot); !ours)
        return ours;
    const Take remove = [&](const Directory &in, const std::string &name) {
        if (in.fd() == snapshot.fd() && is_work(name))
            return remove_work(snapshot, name);
        return name == mark_name ? Result<void>() : in.remove(name);
    };
    if (Result<void> gone = each_file(snapshot, remove); !gone)
        return gone;
    const Result<std::vector<std::string>> left = snapshot.names();
    if (!left)
        return left.error();
    for (const std::string &name : *left) {
        if (name == mark_name)
            continue;
        if (Result<void> gone = remove_emptied(snapshot, name); !gone)
            return gone;
    }
    return snapshot.remove(mark_name);
}

// A maker killed before writing the mark, or a remover after removing it, leaves nothing else.
bool may_lack_mark(const std::vector<std::string> &names)
{
    return names.empty() || (names.size() == 1 && names.front() == unfinished_mark);
}

// Renames a snapshot that was finished, or about to be, back to its unfinished name.
Result<void> take_back(const Directory &top, int seq, const std::string &mark)
{
    const Result<Directory> snapshot = top.enter(std::to_string(seq));
    if (!snapshot)
        return snapshot.error().code() == ENOENT ? Result<void>() : snapshot.error();
    if (Result<void> ours = check_mark(*snapshot, mark); !ours)
        return ours.error().code() == ENOENT ? foreign(snapshot->path()) : ours.error();
    if (Result<void> ours = check_contents(*snapshot); !ours)
        return ours;
    return top.rename(std::to_string(seq), unfinished_name(seq));
}

} // namespace

std::string unfinished_name(int seq)
{
    return fmt::format(".{}.tmp", seq);
}

int unfinished_seq_of(const std::string &name)
{
    constexpr std::string_view behind = ".tmp";
    if (!name.starts_with('.') || !name.ends_with(behind) || name.size() <= 1 + behind.size())
        return -1;
    return seq_of(std::string_view(name).substr(1, name.size() - 1 - behind.size()));
}

Result<Directory> make_marked(const Directory &top, int seq, const std::string &mark)
{
    Result<Directory> made = top.make(unfinished_name(seq));
    if (made) {
        if (Result<void> marked = made->write(mark_name, mark + "\n"); !marked)
            return marked.error();
    }
    return made;
}

Result<void> remove_marked(const Directory &top, int seq, const std::string &mark)
{
    if (Result<void> back = take_back(top, seq, mark); !back)
        return back;
    const std::string name = unfinished_name(seq);
    const Result<Directory> snapshot = top.enter(name);
    if (!snapshot)
        return snapshot.error().code() == ENOENT ? Result<void>() : snapshot.error();
    const Result<std::vector<std::string>> all = snapshot->names();
    if (!all)
        return all.error();
    Result<void> gone;
    if (!may_lack_mark(*all)) {
        gone = check_mark(*snapshot, mark);
        if (gone)
            gone = remove_contents(*snapshot);
        else if (gone.error().code() == ENOENT)
            gone = foreign(snapshot->path());
    } else if (!all->empty()) {
        gone = snapshot->remove(unfinished_mark);
    }
    return gone ? top.remove(name) : gone;
}

} // namespace cryo::coord
