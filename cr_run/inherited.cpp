// SPDX-License-Identifier: Apache-2.0
#include "inherited.hpp"

#include "capture/inherited.hpp"
#include "cli/command.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo {

namespace {

struct Inherited {
    int fd;
    struct stat status;
    std::string link; // as /proc has it
};

std::vector<Inherited> all_inherited()
{
    std::vector<Inherited> all;
    std::error_code failed;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd", failed)) {
        Inherited one = {atoi(entry.path().filename().c_str()), {}, {}};
        const int flags = fcntl(one.fd, F_GETFD);
        if (one.fd <= STDERR_FILENO || flags < 0 || (flags & FD_CLOEXEC) != 0 ||
            fstat(one.fd, &one.status) != 0)
            continue;
        one.link = std::filesystem::read_symlink(entry.path(), failed);
        all.push_back(std::move(one));
    }
    std::ranges::sort(all, {}, &Inherited::fd);
    return all;
}

// Kinds that no checkpoint takes (docs/what-can-be-saved.md).
bool is_refused(const Inherited &one)
{
    constexpr const char *kinds[] = {"anon_inode:[pidfd]",      "anon_inode:[io_uring]",
                                     "anon_inode:[perf_event]", "anon_inode:[userfaultfd]",
                                     "anon_inode:bpf",          "anon_inode:[fanotify]"};
    return std::ranges::any_of(kinds, [&](const char *kind) { return one.link.starts_with(kind); });
}

} // namespace

void tell_inherited()
{
    std::vector<int> ended;
    std::vector<ino_t> sockets;
    for (const Inherited &one : all_inherited()) {
        if (S_ISSOCK(one.status.st_mode))
            sockets.push_back(one.status.st_ino);
        if (S_ISSOCK(one.status.st_mode) || S_ISFIFO(one.status.st_mode))
            ended.push_back(one.fd);
        else if (is_refused(one))
            cli::say("cr_run", fmt::format("descriptor {} ({}) is inherited: the program cannot be "
                                           "saved while it has that",
                                           one.fd, one.link));
    }
    if (!ended.empty())
        cli::say("cr_run",
                 fmt::format("inherited descriptors {} (pipes, sockets) may lead to processes that "
                             "are not saved with the program: they come back as closed then",
                             fmt::join(ended, ", ")));
    if (sockets.empty())
        unsetenv(capture::inherited_variable);
    else
        setenv(capture::inherited_variable, fmt::format("{}", fmt::join(sockets, ",")).c_str(), 1);
}

} // namespace cryo
