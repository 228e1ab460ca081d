// SPDX-License-Identifier: Apache-2.0
#include "keeper/state.hpp"

#include "base/trust.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

constexpr int step_ms = 20;

constexpr const char *state_name = "keeper.json";
constexpr const char *lock_name = "keeper.lock";
constexpr const char *counts = "made_as"; // how many images there were with each
constexpr size_t most_state = size_t(16) << 20;

bool is_named(int fd, const Directory &directory)
{
    struct stat open_one = {};
    const Result<std::optional<struct stat>> named = directory.look(lock_name);
    return fstat(fd, &open_one) == 0 && named && named->has_value() &&
           open_one.st_dev == (*named)->st_dev && open_one.st_ino == (*named)->st_ino;
}

Result<Fd> take_lock(const Directory &directory, int patience_ms)
{
    const std::string path = directory.path(lock_name);
    for (int waited = 0;; waited += step_ms) {
        Fd lock(openat(directory.fd(), lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!lock)
            return Error::from_errno(path, errno);
        if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
            if (is_named(lock.get(), directory))
                return lock; // else the previous owner has removed it meanwhile
        } else if (errno != EWOULDBLOCK) {
            return Error::from_errno(path, errno);
        }
        if (waited >= patience_ms)
            return Error(EBUSY, directory.path() + ": another program's automatic checkpoints go "
                                                   "there; name another directory with --into");
        poll(nullptr, 0, step_ms);
    }
}

} // namespace

Result<State> State::take(const std::string &directory, int patience_ms)
{
    Result<Directory> opened = Directory::open(directory);
    if (!opened)
        return opened.error();
    if (Result<void> own =
            check_own(opened->fd(), directory, "name another directory for the checkpoints");
        !own)
        return own.error();
    Result<Fd> lock = take_lock(*opened, patience_ms);
    if (!lock)
        return lock.error();
    State state(std::move(*opened), std::move(*lock));
    const Result<std::string> text = state.directory_.read(state_name, most_state);
    if (!text && text.error().code() == ENOENT)
        return state;
    const auto unusable = [&](const Error &error) {
        return Error(error.code(),
                     fmt::format("{}: its contents cannot be read, and nothing is removed; repair "
                                 "it, or name another directory with --into",
                                 error.text()));
    };
    if (!text)
        return unusable(text.error());
    nlohmann::ordered_json read = nlohmann::ordered_json::parse(*text, nullptr, false);
    if (!read.is_object())
        return unusable(Error(EBADMSG, state.directory_.path(state_name) + ": is damaged"));
    state.values_ = std::move(read);
    return state;
}

bool State::is_taken(const Directory &directory)
{
    const Fd lock(
        openat(directory.fd(), lock_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return lock && flock(lock.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

Images State::images_in(const char *list) const
{
    Images images;
    if (!has(list))
        return images;
    for (const auto &[name, id] : values_[list].items()) {
        if (id.is_string())
            images.emplace(name, id.get<std::string>());
    }
    return images;
}

void State::count(const std::string &name)
{
    const uint64_t all = made() + 1;
    set("made", all);
    const Images there = images();
    nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
    for (const auto &[known, id] : there)
        numbers[known] = known == name ? all : made(known);
    set(counts, numbers);
}

uint64_t State::made(const std::string &name) const
{
    const auto numbers = values_.find(counts);
    if (numbers == values_.end() || !numbers->is_object())
        return 0;
    const auto found = numbers->find(name);
    return found != numbers->end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

Result<void> State::save() const
{
    return directory_.write(state_name, values_.dump(2) + "\n");
}

void State::give_back(bool was_made)
{
    static_cast<void>(directory_.remove(lock_name));
    lock_.reset();
    if (was_made)
        rmdir(directory_.path().c_str()); // it stays if anything is in it
}

double State::failure_interval(double setting) const
{
    // The setting counts as one failure that was seen in that time.
    return (setting + get("ran_s", 0.0)) / (1 + get("failures", 0.0));
}

} // namespace cryo::keeper
