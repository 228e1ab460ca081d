// SPDX-License-Identifier: Apache-2.0
#include "inherited.hpp"

#include "capture/files/inherited.hpp"
#include "cli/command.hpp"

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <sys/socket.h>
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

bool is_connection(int fd)
{
    sockaddr_storage peer;
    socklen_t size = sizeof(peer);
    return getpeername(fd, reinterpret_cast<sockaddr *>(&peer), &size) == 0;
}

// A FIFO that others reach by its name.
bool is_named_fifo(const Inherited &one)
{
    return S_ISFIFO(one.status.st_mode) && !one.link.starts_with("pipe:");
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

void note_inherited(bool tells)
{
    std::vector<int> ended;
    std::multimap<std::string, std::string> known; // connections and FIFOs: their notes
    for (const Inherited &one : all_inherited()) {
        const bool connection = is_connection(one.fd);
        if (connection || is_named_fifo(one))
            known.emplace(capture::inherited_name(one.status),
                          capture::inherited_note(one.fd, one.status));
        if (connection || S_ISFIFO(one.status.st_mode))
            ended.push_back(one.fd);
        else if (tells && is_refused(one))
            cli::say("cr_run", fmt::format("descriptor {} ({}) is inherited: the program cannot be "
                                           "saved while it has that",
                                           one.fd, one.link));
    }
    // A duplicate of a standard stream is none of its own.
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        struct stat standard;
        if (fstat(fd, &standard) == 0)
            known.erase(capture::inherited_name(standard));
    }
    if (tells && !ended.empty())
        cli::say("cr_run",
                 fmt::format("inherited descriptors {} (pipes, sockets) may lead to processes that "
                             "are not saved with the program: they come back as closed then",
                             fmt::join(ended, ", ")));
    std::set<std::string> notes;
    for (const auto &[name, note] : known)
        notes.insert(note);
    std::string boot;
    std::getline(std::ifstream(capture::boot_id_file), boot);
    if (notes.empty() || boot.empty())
        forget_inherited();
    else
        setenv(capture::inherited_variable,
               fmt::format("{}:{}", boot, fmt::join(notes, ",")).c_str(), 1);
}

void forget_inherited()
{
    unsetenv(capture::inherited_variable);
}

} // namespace cryo
