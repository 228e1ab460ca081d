// SPDX-License-Identifier: Apache-2.0
#include "survey/budget.hpp"

#include "base/trust.hpp"
#include "keeper/state.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::survey {

namespace {

constexpr const char *way_out = "images are removed from a directory of your own alone";

// A file with a further name elsewhere would go on to take its space.
bool may_go(const Stored &one, uid_t owner)
{
    return (one.kind == Kind::image || one.kind == Kind::archive) && !one.broken &&
           one.owner == owner && one.names == 1 && one.also.empty();
}

using Names = std::set<std::string>;

void keep_with_needs(const Stored &one, Names &stay)
{
    stay.insert(one.name);
    stay.insert(one.based_on.begin(), one.based_on.end());
}

// An image that cannot go may be the newest good one of its program all the same.
void keep_newest_good(const Shelf &shelf, const std::function<bool(const Stored &)> &is_good,
                      Names &stay)
{
    std::map<std::pair<pid_t, std::string>, bool> programs; // whether a good one is found
    for (auto at = shelf.images.rbegin(); at != shelf.images.rend(); ++at) {
        const Stored &one = *at;
        if (one.broken || (one.kind != Kind::image && one.kind != Kind::archive))
            continue;
        bool &found = programs[{one.pid, one.program}];
        if (found || !is_good(one))
            continue;
        found = true;
        keep_with_needs(one, stay);
    }
    // Where none is good, perhaps because a disk cannot be read now, nothing is judged.
    for (const Stored &one : shelf.images) {
        const auto program = programs.find({one.pid, one.program});
        if (program != programs.end() && !program->second)
            keep_with_needs(one, stay);
    }
}

uint64_t bytes_of(const Shelf &shelf, const Names &names)
{
    uint64_t bytes = 0;
    for (const Stored &one : shelf.images)
        bytes += names.contains(one.name) ? one.bytes : 0;
    return bytes;
}

// Unless another file has come to its name since.
Result<void> remove(const Directory &directory, const Stored &one)
{
    const Result<std::optional<struct stat>> there = directory.look(one.name);
    if (!there)
        return there.error();
    if (!*there || !S_ISREG((*there)->st_mode) ||
        image::FileId((*there)->st_dev, (*there)->st_ino) != one.id)
        return Error(ESTALE, directory.path(one.name) + ": is another file now, and stays");
    if (unlinkat(directory.fd(), one.name.c_str(), 0) != 0)
        return Error::from_errno(directory.path(one.name), errno);
    return {};
}

Error is_busy(const std::string &directory)
{
    return {EBUSY, directory +
                       ": automatic checkpoints go there now, and --keep of cr_run says how "
                       "many images stay; nothing is removed until that program has ended"};
}

} // namespace

std::vector<size_t> surplus(const Shelf &shelf, uint64_t budget, uid_t owner,
                            const std::function<bool(const Stored &)> &is_good)
{
    std::vector<size_t> go;
    if (shelf.bytes() <= budget)
        return go;
    Names stay;
    for (const Stored &one : shelf.images) {
        if (!may_go(one, owner))
            keep_with_needs(one, stay);
    }
    keep_newest_good(shelf, is_good, stay);
    for (auto at = shelf.images.rbegin(); at != shelf.images.rend(); ++at) {
        const Stored &one = *at;
        Names more = stay;
        keep_with_needs(one, more);
        if (bytes_of(shelf, more) > budget)
            break; // whatever is older goes, too
        stay = std::move(more);
    }
    for (size_t i = 0; i < shelf.images.size(); i++) {
        if (!stay.contains(shelf.images[i].name))
            go.push_back(i);
    }
    // An image needs more than its base does. So a removal that is broken off leaves none without
    // its base.
    std::ranges::stable_sort(go, std::greater(),
                             [&](size_t i) { return shelf.images[i].based_on.size(); });
    return go;
}

Result<Pruned> prune(const std::string &path, uint64_t budget, Removal removal,
                     const std::function<void(const Stored &)> &tell)
{
    const Result<Directory> directory = Directory::open(path);
    if (!directory)
        return directory.error();
    if (Result<void> own = check_own(directory->fd(), path, way_out); !own)
        return own.error();
    if (keeper::State::is_taken(*directory))
        return is_busy(path);
    std::optional<keeper::State> held; // keeps keepers out
    if (removal == Removal::real) {
        Result<keeper::State> state = keeper::State::take(path);
        if (!state)
            return state.error().code() == EBUSY ? is_busy(path) : state.error();
        held.emplace(std::move(*state));
    }
    const auto prune_held = [&]() -> Result<Pruned> {
        const Result<Shelf> shelf = look_at_shelf(path);
        if (!shelf)
            return shelf.error();
        Pruned pruned = {.left = shelf->images.size(), .bytes = shelf->bytes()};
        const auto is_good = [&](const Stored &one) {
            return bool(read_whole(*directory, one.name));
        };
        for (const size_t i : surplus(*shelf, budget, geteuid(), is_good)) {
            const Stored &one = shelf->images[i];
            if (removal == Removal::real) {
                if (Result<void> gone = remove(*directory, one); !gone)
                    return gone.error();
            }
            pruned.removed++;
            pruned.left--;
            pruned.freed += one.bytes;
            pruned.bytes -= one.bytes;
            tell(one);
        }
        return pruned;
    };
    Result<Pruned> done = prune_held();
    if (held)
        held->give_back(false);
    return done;
}

} // namespace cryo::survey
