// SPDX-License-Identifier: Apache-2.0
#include "backend/private_directory.hpp"

#include "base/directory.hpp"
#include "base/pipe.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;

// Survives signals from the terminal and to the process group, to end after all users have. Removes
// the contents by descriptor, as a user with write access to the parent directory may have put
// another directory in its place.
[[noreturn]] void wait_and_remove(int end_of_all, int directory, const std::string &path, Fd ready)
{
    setsid();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    ready.reset();
    // Closes all other descriptors: an inherited pipe end would keep that pipe's reader waiting.
    constexpr int kept = 3;
    constexpr int own = 4;
    const int moved = fcntl(directory, F_DUPFD, own + 1); // above the target numbers
    dup2(end_of_all, kept);
    dup2(moved, own);
    close_range(own + 1, ~0U, 0);
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < kept; fd++)
        dup2(nothing, fd);
    char byte;
    while (read(kept, &byte, 1) < 0 && errno == EINTR)
        ;
    if (const Result<Directory> made = Directory::of(own, path); made)
        made->clear();
    rmdir(path.c_str());
    _exit(0);
}

} // namespace

Result<PrivateDirectory> PrivateDirectory::make(const std::string &parent, std::string_view what)
{
    std::error_code error;
    const fs::path place = fs::absolute(parent, error);
    std::string path = (place / fmt::format(".cryo-{}.XXXXXX", what)).string();
    if (error || mkdtemp(path.data()) == nullptr)
        return Error::from_errno(parent + ": a directory for temporary files there",
                                 error ? error.value() : errno);
    const Result<Directory> made = Directory::open(path);
    if (!made)
        return made.error();
    Result<PipeEnds> ends = make_pipe();
    Result<PipeEnds> ready = make_pipe();
    const pid_t janitor = ends && ready ? fork() : -1;
    const int failure = errno;
    if (janitor == 0) {
        ends->write.reset();
        wait_and_remove(ends->read.get(), made->fd(), path, std::move(ready->write));
    }
    if (janitor < 0) {
        rmdir(path.c_str());
        return Error::from_errno("a process that removes " + path, failure);
    }
    // Now our end is the only one that keeps the directory in use, and a signal to our process
    // group no longer reaches the janitor.
    ready->write.reset();
    char byte;
    while (read(ready->read.get(), &byte, 1) < 0 && errno == EINTR)
        ;
    return PrivateDirectory(std::move(path), std::move(ends->write), std::move(ends->read),
                            janitor);
}

PrivateDirectory::PrivateDirectory(PrivateDirectory &&other) noexcept
    : path_(std::move(other.path_)), lifeline_(std::move(other.lifeline_)),
      end_of_all_(std::move(other.end_of_all_)), janitor_(std::exchange(other.janitor_, -1))
{}

PrivateDirectory::~PrivateDirectory()
{
    if (janitor_ < 0)
        return;
    lifeline_.reset();
    pollfd all = {end_of_all_.get(), 0, 0};
    int gone = 0;
    while ((gone = poll(&all, 1, 0)) < 0 && errno == EINTR)
        ;
    if (gone != 1)
        return; // another process still holds the lifeline
    while (waitpid(janitor_, nullptr, 0) < 0 && errno == EINTR)
        ;
}

std::string temporary_place()
{
    const char *place = getenv("TMPDIR");
    return place != nullptr && *place != 0 ? place : "/tmp";
}

} // namespace cryo::backend
