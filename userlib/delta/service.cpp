// SPDX-License-Identifier: Apache-2.0
//
// Opening a service directory, and finishing what a killed process had begun. How an image and the
// state stay in step:
//
//     1. the image is written to a file without a name
//     2. DIR/pending says which id is about to appear under which name         (rename, fsync)
//     3. the image gets its name                                               (link, fsync)
//     4. DIR/state knows it                                                    (rename, fsync)
//     5. DIR/pending is removed
//
// After a kill before 3 there is no image, and the file named by DIR/pending has another id or is
// missing. After a kill after 3, the next process to open the directory finds the image and does 4;
// the signature is that of its base with the image's partial signature laid over it.
#include "delta/service.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/directory.hpp"
#include "base/trust.hpp"
#include "delta/plain_file.hpp"

namespace cryo::delta {

using namespace cryo::image;

namespace {

// The id of the image at `path`; empty: there is no file, or it is no image. A missing directory is
// an error, as its file system may not be mounted.
Result<std::optional<Digest>> id_at(const std::string &path)
{
    const auto [parent, name] = split_path(path);
    auto directory = Directory::open(parent + "/."); // the parent may be a link by now
    if (!directory)
        return directory.error();
    auto id = look_for_id(*directory, name);
    if (!id && id.error().code() == ENOENT)
        return std::optional<Digest>();
    return id;
}

// Removes the file in the same open directory in which its id was checked.
Result<void> remove_image(const std::string &path, const Digest &id)
{
    const auto [parent, name] = split_path(path);
    auto directory = Directory::open(parent + "/."); // the parent may be a link by now
    if (!directory)
        return directory.error().code() == ENOENT ? Result<void>() : directory.error();
    auto found = look_for_id(*directory, name);
    if (!found)
        return found.error().code() == ENOENT ? Result<void>() : found.error();
    return *found == id ? directory->remove(name) : Result<void>();
}

Result<Digest> random_series()
{
    std::array<uint8_t, 16> bytes;
    if (getrandom(bytes.data(), bytes.size(), 0) != ssize_t(bytes.size()))
        return Error::from_errno("a random id", errno);
    return Digest::from_bytes(bytes);
}

} // namespace

Result<std::unique_ptr<Service>> Service::open(const std::string &directory, Use use)
{
    if (use == Use::create && mkdir(directory.c_str(), 0700) && errno != EEXIST)
        return Error::from_errno(directory, errno);
    std::unique_ptr<Service> service(new Service(directory));
    // The state names files that this process removes, so the directory must be the caller's own.
    if (use != Use::read) {
        auto opened = Directory::open(directory + "/.");
        if (!opened)
            return opened.error();
        if (auto own = check_own(opened->fd(), directory, "choose another service directory"); !own)
            return own.error();
        service->trust_ = std::make_shared<Trust>();
    }
    if (auto ok = service->lock(use); !ok)
        return ok.error();
    auto state = State::load(directory, service->trust_);
    if (state) {
        service->state_ = std::move(*state);
    } else if (state.error().code() != ENOENT) {
        return state.error().within("the service directory cannot be used; a new one can be "
                                    "begun, and its images can be restored with --base");
    } else if (use != Use::create) {
        return Error(ENOENT, directory + ": is no service directory; cr_delta add makes one");
    } else {
        auto series = random_series();
        if (!series)
            return series.error();
        service->state_.series = *series;
        if (auto ok = service->record(); !ok)
            return ok.error();
    }
    if (auto ok = service->settle(use != Use::read); !ok)
        return ok.error();
    return service;
}

// Readers lock too, so that nothing is pruned while they read; if they cannot open the lock they do
// without. A lock file of the caller's own is only held by the caller's processes, which will end.
// Another owner may have put a FIFO there, or keep the lock for ever, so the wait is limited.
Result<void> Service::lock(Use use)
{
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds patience{5};
    const std::string path = directory_ + "/lock";
    const bool reads = use == Use::read;
    const int flags = (reads ? O_RDONLY : O_RDWR | O_CREAT) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    lock_ = Fd(::open(path.c_str(), flags, 0600));
    if (!lock_)
        return reads ? Result<void>() : Error::from_errno(path, errno);
    struct stat status = {};
    if (fstat(lock_.get(), &status) != 0)
        return Error::from_errno(path, errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is no file, and so no lock");
    const bool own = status.st_uid == geteuid();
    const auto until = Clock::now() + patience;
    while (flock(lock_.get(), (reads ? LOCK_SH : LOCK_EX) | (own ? 0 : LOCK_NB)) != 0) {
        if (errno == EINTR)
            continue;
        if (errno != EWOULDBLOCK)
            return Error::from_errno(path, errno);
        if (Clock::now() >= until)
            return Error(EBUSY, fmt::format("{}: its owner, user {}, has been at work there for {} "
                                            "s; try again later",
                                            path, user_text(status.st_uid), patience.count()));
        const timespec pause = {0, 20'000'000};
        nanosleep(&pause, nullptr);
    }
    return {};
}

Result<void> Service::record()
{
    return state_.save(directory_);
}

Result<void> Service::settle(bool may_write)
{
    auto pending = load_pending(directory_, trust_);
    if (!pending)
        return pending.error().within("what was interrupted here cannot be read; remove it");
    bool changed = false;
    if (*pending && !state_.by_id((*pending)->id)) {
        auto adopted = adopt(**pending);
        if (!adopted)
            return adopted.error();
        changed = *adopted;
    }
    if (!may_write)
        return {};
    if (changed)
        if (auto ok = record(); !ok)
            return ok;
    if (*pending)
        unlink(pending_path(directory_).c_str());
    sweep();
    return finish_removal();
}

// False: the image never appeared.
Result<bool> Service::adopt(Entry pending)
{
    auto id = id_at(pending.path);
    if (!id)
        return id.error().within(
            fmt::format("whether an image appeared there, when adding it was "
                        "interrupted, cannot be known (removing {} forgets it)",
                        pending_path(directory_)));
    if (*id != pending.id)
        return false;
    auto version = finder().open(pending.path);
    if (!version)
        return version.error();
    pending.checksum = (*version)->image().footer().checksum;
    pending.stored = (*version)->image().footer().length;
    if (pending.replaces) {
        supersede(pending);
        return true;
    }
    const Signature *base = pending.base_id == state_.base.image       ? &state_.base.signature
                            : pending.base_id == state_.previous.image ? &state_.previous.signature
                                                                       : nullptr;
    auto now = (*version)->signature(base);
    if (!now)
        return now.error();
    advance(pending, std::move(*now));
    return true;
}

// Removes temporary files of a process that was killed between naming and renaming one.
void Service::sweep() const
{
    std::error_code error;
    for (const auto &file : std::filesystem::directory_iterator(directory_, error)) {
        std::string name = file.path().filename();
        if (name.ends_with(".tmp") &&
            (name.starts_with(".state.") || name.starts_with(".pending.")))
            unlink(file.path().c_str());
    }
}

// Removes files that the state no longer needs. A file that is not the known image stays.
Result<void> Service::finish_removal()
{
    auto doomed = [](const Entry &e) { return e.state == DeltaState::removed; };
    if (std::ranges::none_of(state_.entries, doomed))
        return {};
    for (const Entry &e : state_.entries)
        if (doomed(e))
            if (auto ok = remove_image(e.path, e.id); !ok)
                return ok.error().within("removing");
    std::erase_if(state_.entries, doomed);
    return record();
}

Result<Entry> Service::find(const std::string &what) const
{
    struct stat st;
    bool digits = !what.empty() && what.size() < 10 &&
                  what.find_first_not_of("0123456789") == std::string::npos;
    if (digits && lstat(what.c_str(), &st)) {
        const Entry *entry = state_.by_number(uint32_t(std::stoul(what)));
        if (entry)
            return *entry;
        return Error(ENOENT, fmt::format("{}: has no version {}", directory_, what));
    }
    auto id = id_of_file(what);
    if (!id) {
        auto image = Image::open(what); // says why
        return image ? Error(EBADMSG, what + ": is not an image") : image.error();
    }
    const Entry *entry = state_.by_id(*id);
    if (!entry)
        return Error(ENOENT, fmt::format("{}: holds no version that {} knows", what, directory_));
    return *entry;
}

// Updates the state after an image of a new version has appeared.
void Service::advance(const Entry &entry, Signature now)
{
    state_.settings.block_size = now.block_size;
    Known fresh{entry.id, std::move(now)};
    if (!entry.base_id)
        state_.base = fresh;
    else if (entry.base_id == state_.previous.image)
        state_.base = std::move(state_.previous);
    state_.previous = std::move(fresh);
    state_.next = entry.number + 1;
    state_.entries.push_back(entry);
}

// Updates the state after another image of a known version has appeared.
void Service::supersede(const Entry &entry)
{
    for (Known *known : {&state_.base, &state_.previous})
        if (known->image == entry.replaces)
            known->image = entry.id;
    Entry *old = state_.by_id(entry.replaces);
    size_t place = old ? size_t(old - state_.entries.data()) : state_.entries.size();
    if (old && old->path == entry.path) {
        *old = entry;
    } else {
        if (old)
            old->state = DeltaState::superseded;
        state_.entries.insert(state_.entries.begin() + long(place), entry);
    }
    // The newest version needs no other image now, so it is the best base.
    if (!entry.base_id && state_.previous.image == entry.id)
        state_.base = state_.previous;
}

} // namespace cryo::delta
