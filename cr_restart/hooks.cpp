// SPDX-License-Identifier: Apache-2.0
#include "hooks.hpp"

#include "cli/command.hpp"
#include "libcr.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

// Whether a later attempt may succeed.
bool is_temporary(int error)
{
    constexpr int list[] = {EAGAIN, EBUSY,   ENOMEM, EEXIST,    EMFILE, ENFILE, ENOSPC,      EDQUOT,
                            EINTR,  ETXTBSY, ETIME,  ETIMEDOUT, EIO,    ECHILD, CR_ETEMPFAIL};
    return std::ranges::find(list, error) != std::end(list);
}

// Whether the cause is not the image but the environment: a thing that is missing or has changed.
bool is_environment(int error)
{
    constexpr int list[] = {ENOENT, EACCES, EPERM,  ENOTDIR, EISDIR,  EROFS, ENODEV,
                            ENXIO,  ELOOP,  ESTALE, EINVAL,  ENOTSUP, ESRCH, CR_EBADARCH};
    return std::ranges::find(list, error) != std::end(list);
}

constexpr int not_run = 255;

// The command's exit status; 0 if there is none to run.
int run(const std::string &command, const std::string &variable)
{
    if (command.empty())
        return 0;
    std::vector<std::string> words = {"sh", "-c", command};
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string own = variable;
    std::vector<char *> environment = {own.data()};
    for (char **one = environ; *one != nullptr; one++)
        environment.push_back(*one);
    environment.push_back(nullptr);
    // A restart ignores SIGPIPE, which a shell could not undo for its commands.
    posix_spawnattr_t attributes;
    sigset_t standard;
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t pid = -1;
    const int error =
        posix_spawn(&pid, "/bin/sh", nullptr, &attributes, arguments.data(), environment.data());
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        cryo::cli::say("cr_restart", command + ": could not be run");
        return not_run;
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return not_run;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : not_run;
}

} // namespace

std::vector<Hooks::Entry> Hooks::list()
{
    return {
        {"--run-on-success", &success_, "When the process is restored"},
        {"--run-on-fail-args", &args_, "On wrong usage of cr_restart"},
        {"--run-on-fail-temp", &temporary_,
         "On a temporary failure: an id or a resource is in use"},
        {"--run-on-fail-env", &environment_,
         "On a failure of the environment: files, privileges, the machine"},
        {"--run-on-fail-perm", &permanent_, "On a permanent failure: the image itself is at fault"},
        {"--run-on-failure", &any_, "On any failure that has no command of its own"},
    };
}

int Hooks::succeeded(pid_t pid) const
{
    return run(success_, fmt::format("CRYO_PID={}", pid));
}

int Hooks::failed(int error, int code) const
{
    const std::string &own = error == 0              ? args_
                             : is_temporary(error)   ? temporary_
                             : is_environment(error) ? environment_
                                                     : permanent_;
    const int status = run(own.empty() ? any_ : own, fmt::format("CRYO_ERROR={}", error));
    return status != 0 ? status : code;
}
