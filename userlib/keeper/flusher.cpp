// SPDX-License-Identifier: Apache-2.0
#include "keeper/flusher.hpp"

#include "base/directory.hpp"
#include "base/sync.hpp"
#include "base/write_all.hpp"
#include "keeper/worker.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

constexpr size_t piece_bytes = 4 << 20;
constexpr int lowest_priority = 19;
constexpr int of_another_run = 3; // the copier's status: something else has an image's name

// Waits until the rate of `bytes` since `begun` is down to `rate`.
void keep_to(uint64_t rate, uint64_t bytes, double begun)
{
    if (rate == 0)
        return;
    const double left =
        begun + static_cast<double>(bytes) / static_cast<double>(rate) - monotonic_now();
    if (left <= 0)
        return;
    timespec pause;
    pause.tv_sec = static_cast<time_t>(left);
    pause.tv_nsec = static_cast<long>((left - static_cast<double>(pause.tv_sec)) * 1e9);
    nanosleep(&pause, nullptr);
}

} // namespace

Result<void> Flusher::copy(const std::string &name) const
{
    const std::string source = from_.path(name);
    const std::string made = to_.temporary(name);
    Fd in(open(source.c_str(), O_RDONLY | O_CLOEXEC));
    if (!in)
        return Error::from_errno(source, errno);
    Fd out(open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400));
    if (!out)
        return Error::from_errno(made, errno);
    const auto contents = [&]() -> Result<void> {
        std::vector<char> piece(piece_bytes);
        const double begun = monotonic_now();
        uint64_t bytes = 0;
        for (;;) {
            const ssize_t got = read(in.get(), piece.data(), piece.size());
            if (const int err = got == 0 ? sync_file(out.get()) : 0)
                return Error::from_errno(made, err);
            if (got == 0)
                return {};
            if (got < 0 && errno != EINTR)
                return Error::from_errno(source, errno);
            if (got < 0)
                continue;
            const std::string_view part(piece.data(), static_cast<size_t>(got));
            Result<void> put = write_all(out.get(), made, part);
            if (!put)
                return put;
            bytes += static_cast<uint64_t>(got);
            keep_to(bandwidth_, bytes, begun);
        }
    };
    if (Result<void> good = contents(); !good) {
        unlink(made.c_str());
        return good;
    }
    Result<void> placed = place(made, name);
    if (!placed)
        unlink(made.c_str());
    return placed;
}

// The copier of a program that has ended goes on beside that of the keeper after it, and replaces
// nothing of that one's.
Result<void> Flusher::place(const std::string &made, const std::string &name) const
{
    const Result<Directory> directory = Directory::open(to_.directory());
    if (!directory)
        return directory.error();
    const Result<void> renamed = directory->rename(split_path(made).second, name);
    if (renamed)
        return directory->sync();
    const Result<bool> there =
        renamed.error().code() == EEXIST ? has_copy(name) : Result<bool>(renamed.error());
    if (!there || !*there)
        return there ? renamed.error() : there.error();
    unlink(made.c_str());
    return {};
}

// EEXIST: another file has the name; it is not replaced.
Result<bool> Flusher::has_copy(const std::string &name) const
{
    const Result<std::string> there = to_.id_of(name);
    if (!there && there.error().code() == ENOENT)
        return false;
    const Result<std::string> here = from_.id_of(name);
    if (!there || !here)
        return there ? here.error() : there.error();
    if (*there != *here)
        return Error(EEXIST, to_.path(name) + ": is another file than the image of that name; "
                                              "remove it, or name another directory with --second");
    return true;
}

// The newest image and those that it needs, the oldest first.
Result<std::vector<std::string>> Flusher::wanted() const
{
    const Result<std::string> newest = from_.newest();
    if (!newest)
        return newest.error();
    return newest->empty() ? std::vector<std::string>() : from_.needed(*newest);
}

Result<void> Flusher::work(const std::vector<std::string> &names, unsigned keep,
                           Images images) const
{
    if (job_) {
        const Result<std::vector<std::string>> sent =
            job_->push(from_.path(reference_name), {.rate = bandwidth_});
        return sent ? Result<void>() : Result<void>(sent.error());
    }
    if (remote_) {
        std::set<std::string> may_go;
        for (const auto &[name, id] : images)
            may_go.insert(name);
        return names.empty() ? Result<void>() : remote_->send(from_, names, may_go);
    }
    to_.remove_abandoned();
    if (names.empty())
        return {};
    for (const std::string &name : names) {
        const Result<bool> there = has_copy(name);
        if (!there)
            return there.error();
        if (*there)
            continue;
        if (Result<void> copied = copy(name); !copied)
            return copied;
    }
    if (Result<void> pointed = to_.point_latest(); !pointed)
        return pointed;
    return to_.prune(keep, images);
}

Result<void> Flusher::begin(unsigned keep, const Images &images, const std::vector<int> &locks)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    ended_ = Fd(ends[0]);
    Fd telling(ends[1]);
    begun_ = monotonic_now();
    // Chosen before the caller goes on: it removes images, and these only after they were copied.
    const Result<std::vector<std::string>> names = job_ ? std::vector<std::string>() : wanted();
    child_ = fork();
    if (child_ < 0)
        return Error::from_errno("fork", errno);
    if (child_ > 0) {
        if (names)
            copying_.insert(names->begin(), names->end());
        return {};
    }
    for (const int lock : locks)
        close(lock);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (nice(lowest_priority) < 0)
        errno = 0; // then it works at the priority it has
    const Result<void> done = names ? work(*names, keep, images) : names.error();
    if (!done) {
        const std::string text = done.error().text();
        if (write(telling.get(), text.data(), text.size()) < 0)
            _exit(2);
    }
    _exit(done ? 0 : done.error().code() == EEXIST ? of_another_run : 1);
}

Result<double> Flusher::end()
{
    std::string text;
    char buffer[1024];
    for (ssize_t got; (got = read(ended_.get(), buffer, sizeof(buffer))) != 0;) {
        if (got > 0)
            text.append(buffer, static_cast<size_t>(got));
        else if (errno != EINTR)
            break;
    }
    int status = 0;
    while (waitpid(child_, &status, 0) < 0) {
        if (errno == EINTR)
            continue;
        status = -1; // nothing says that it has succeeded
        break;
    }
    child_ = 0;
    copying_.clear();
    ended_.reset();
    if (status != 0)
        return Error(WIFEXITED(status) && WEXITSTATUS(status) == of_another_run ? EEXIST : EIO,
                     text.empty() ? "copying ended early" : text);
    return monotonic_now() - begun_;
}

void Flusher::give_up()
{
    kill(child_, SIGKILL);
    static_cast<void>(end());
}

} // namespace cryo::keeper
