// SPDX-License-Identifier: Apache-2.0
// What a keeper does before it makes images, and where they are copied to what is no directory, of
// each.
#include "keeper/keeper.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <sys/stat.h>

namespace cryo::keeper {

namespace {

namespace fs = std::filesystem;

// In the state: which place has what was sent, and its newest image.
constexpr const char *second_name = "second";
constexpr const char *second_newest_name = "second_newest";

std::string new_series_name()
{
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
}

} // namespace

// Images of another run must not be pruned as old ones of this run. So a new run, as opposed to a
// restart, needs a directory of its own.
Result<void> Keeper::check_images() const
{
    const std::string from = fs::path(settings_.image).parent_path();
    const auto check = [&](const std::string &directory, const std::string &image) {
        if (image.empty() || from == settings_.directory ||
            (!from.empty() && from == settings_.second))
            return Result<void>();
        return Result<void>(Error(
            EEXIST, fmt::format("{}: has images of another run; go on with that by {}, or name "
                                "another directory",
                                directory,
                                settings_.mpi ? "ompi-restart --where " + directory + " " + image
                                              : "cr_restart " + directory + "/" + latest_name)));
    };
    Result<std::string> newest = series_.newest();
    struct stat status = {};
    if (newest && settings_.mpi) {
        const bool there = lstat(series_.path(reference_name).c_str(), &status) == 0;
        if (!there && errno != ENOENT)
            return Error::from_errno(series_.path(reference_name), errno);
        newest = std::string(there ? reference_name : "");
    }
    if (!newest)
        return newest.error();
    Result<void> good = check(settings_.directory, *newest);
    if (!good || !second_)
        return good;
    newest = second_->newest();
    return newest ? check(settings_.second, *newest) : newest.error();
}

// An older Cryo kept no list of its images: in its directories, all images are taken as made by it.
Result<void> Keeper::learn_images()
{
    for (State *state : {&*state_, second_state_ ? &*second_state_ : nullptr}) {
        if (state == nullptr || state->has("images"))
            continue;
        const bool older = !state->get("series", std::string()).empty();
        const Result<Images> all =
            older ? (state == &*state_ ? series_ : *second_).all() : Images();
        if (!all)
            return all.error();
        state->set_images(*all);
    }
    return {};
}

// Refuses a second directory that has images of another series. If the first directory is empty, as
// when it was lost with its node, the second one's series is continued.
Result<void> Keeper::check_second()
{
    const auto theirs = second_state_->get("series", std::string());
    const auto ours = state_->get("series", std::string());
    const Result<std::string> first = series_.newest();
    const Result<std::string> second = second_->newest();
    if (!first || !second)
        return first ? second.error() : first.error();
    const bool fresh = first->empty();
    if (!theirs.empty() && theirs != ours && !fresh)
        return Error(EEXIST, settings_.second + ": has images of another series than " +
                                 settings_.directory + "; name another directory with --second");
    if (theirs.empty() && !second->empty())
        return Error(EEXIST, settings_.second +
                                 ": has images that were not copied there from a first directory");
    if (ours.empty() || fresh)
        state_->set("series", theirs.empty() ? new_series_name() : theirs);
    second_state_->set("series", state_->get("series", std::string()));
    return second_state_->save();
}

void Keeper::name_series()
{
    if (state_->get("series", std::string()).empty())
        state_->set("series", new_series_name());
}

// Refuses a series elsewhere that has images of another run. One that a restart has its image
// from is continued, as when the first directory was lost with its machine. One that is ours may be
// away when the program comes back, and is for a while as if it were away later.
Result<void> Keeper::check_remote()
{
    if (!remote_)
        return {};
    const Result<std::string> first = series_.newest();
    if (!first)
        return first.error();
    const bool is_known = state_->get(second_name, std::string()) == settings_.second;
    const Result<std::string> newest = remote_->newest();
    if (!newest && is_known) {
        remote_newest_ = state_->get(second_newest_name, std::string());
        copying_failed(newest.error());
        return {};
    }
    if (!newest)
        return newest.error();
    remote_newest_ = *newest;
    const bool goes_on = fs::path(settings_.image).parent_path() == settings_.second;
    if (!newest->empty() && !is_known && !(goes_on && first->empty()))
        return Error(EEXIST, fmt::format("{0}: has images of another run; go on with that by "
                                         "cr_restart {0}/{1} and an empty --into, or name another "
                                         "series with --second",
                                         settings_.second, latest_name));
    if (!is_known)
        state_->set_sent({});
    state_->set(second_name, settings_.second);
    return {};
}

void Keeper::flush_to_remote()
{
    remember(); // that the series is ours, before there is an image of it
    const Images sent = state_->sent();
    const Result<Images> here = series_.still_there(sent);
    going_ = here ? sent : Images();
    for (const auto &[name, id] : here ? *here : Images())
        going_.erase(name);
    begin_copying(sent, {state_->lock()});
    announce_sent(flusher_->copying());
}

// Before they are there: what the list has is removed one day.
void Keeper::announce_sent(const std::set<std::string> &names)
{
    Images sent = state_->sent();
    const Images images = state_->images();
    for (const std::string &name : names) {
        if (const auto known = images.find(name); known != images.end())
            sent.insert(*known);
        if (remote_newest_.empty() || Series::comes_before(remote_newest_, name))
            remote_newest_ = name;
    }
    state_->set_sent(sent);
    state_->set(second_newest_name, remote_newest_);
}

// What has the name of one of ours at the server is another run's then, and is not removed one day.
void Keeper::note_not_sent(const std::set<std::string> &names)
{
    Images sent = state_->sent();
    for (const std::string &name : names)
        sent.erase(name);
    state_->set_sent(sent);
    remember();
}

void Keeper::note_sent()
{
    Images sent = state_->sent();
    for (const auto &[name, id] : going_)
        sent.erase(name);
    state_->set_sent(sent);
    remember();
}

// The place of a job has what its directory has: of one run. One that is ours is not asked: it may
// be away when the job comes back.
Result<void> Keeper::check_job_place()
{
    if (state_->get(second_name, std::string()) == settings_.second)
        return {};
    const Result<bool> there = job_place_->has_snapshots();
    if (!there)
        return there.error();
    if (*there)
        return Error(EEXIST, settings_.second + ": has snapshots of another run; name another "
                                                "place with --second");
    state_->set(second_name, settings_.second);
    return {};
}

void Keeper::flush_job()
{
    remember(); // that the place is ours, before there is a snapshot
    made_meanwhile_ = 0;
    begin_copying({}, {state_->lock()});
}

void Keeper::job_flushed(double took)
{
    remember();
    note(fmt::format("{}: {} is complete after {:.2f} s", settings_.second, reference_name, took));
    if (made_meanwhile_ > 0)
        flush();
}

std::string Keeper::newest_there() const
{
    return remote_ ? remote_newest_ : second_ ? newest_in(*second_) : reference_name;
}

} // namespace cryo::keeper
