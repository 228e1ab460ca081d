// SPDX-License-Identifier: Apache-2.0
#include "keeper/state.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

constexpr int patience_ms = 5000;
constexpr int step_ms = 20;

bool is_named(int fd, const std::string &path)
{
    struct stat open_one = {};
    struct stat named = {};
    return fstat(fd, &open_one) == 0 && stat(path.c_str(), &named) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

} // namespace

Result<State> State::take(const std::string &directory)
{
    const std::string path = directory + "/keeper.json";
    const std::string lock_path = directory + "/keeper.lock";
    Fd lock;
    for (int waited = 0;; waited += step_ms) {
        lock.reset(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
        if (!lock)
            return Error::from_errno(lock_path, errno);
        if (flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
            if (is_named(lock.get(), lock_path))
                break; // else who had it has removed it meanwhile
            continue;
        }
        if (errno != EWOULDBLOCK)
            return Error::from_errno(lock_path, errno);
        if (waited >= patience_ms)
            return Error(EBUSY, directory + ": another program's automatic checkpoints go there; "
                                            "name another directory with --into");
        poll(nullptr, 0, step_ms);
    }
    State state(path, std::move(lock));
    if (std::ifstream file(path); file) {
        nlohmann::ordered_json read = nlohmann::ordered_json::parse(file, nullptr, false);
        if (read.is_object())
            state.values_ = std::move(read);
    }
    return state;
}

Result<void> State::save() const
{
    const std::string made = fmt::format("{}.{}", path_, getpid());
    {
        std::ofstream file(made, std::ios::trunc);
        file << values_.dump(2) << '\n';
        file.flush();
        if (!file)
            return Error::from_errno(made, errno != 0 ? errno : EIO);
    }
    if (rename(made.c_str(), path_.c_str()) != 0)
        return Error::from_errno(path_, errno);
    return {};
}

void State::give_back()
{
    const size_t end = path_.rfind('/');
    const std::string directory = path_.substr(0, end);
    unlink((directory + "/keeper.lock").c_str());
    lock_.reset();
    rmdir(directory.c_str()); // it stays if anything is in it
}

double State::failure_interval(double setting) const
{
    // The setting counts as one failure that was seen in that time.
    return (setting + get("ran_s", 0.0)) / (1 + get("failures", 0.0));
}

} // namespace cryo::keeper
