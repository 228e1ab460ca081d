// SPDX-License-Identifier: Apache-2.0
#include "cli/stored.hpp"

#include "base/contents.hpp"
#include "base/pipe.hpp"
#include "cli/error_json.hpp"
#include "cli/place.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::cli {

namespace {

constexpr int not_started = 127;

// Messages are on standard output (--json), and become ours.
[[noreturn]] void become_store(const std::string &command, const std::string &place,
                               const std::string &directory, int output, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(not_started);
    dup2(output, STDOUT_FILENO);
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, STDIN_FILENO);
    dup2(nothing, STDERR_FILENO);
    execl(command.c_str(), "cr_store", "pull", "--json", place.c_str(), directory.c_str(), nullptr);
    _exit(not_started);
}

Result<std::string> path_in(const std::string &said, const Error &otherwise)
{
    const nlohmann::json answer = nlohmann::json::parse(said, nullptr, false);
    if (!answer.is_object())
        return otherwise;
    if (const auto error = answer.find("error"); error != answer.end() && error->is_object())
        return error_from(nlohmann::ordered_json(*error));
    const auto path = answer.find("path");
    if (path == answer.end() || !path->is_string())
        return otherwise;
    return path->get<std::string>();
}

} // namespace

bool is_stored(std::string_view named)
{
    return named.starts_with("s3://");
}

Result<std::string> bring_stored(const std::string &place, const std::string &directory)
{
    const std::string command = cli::command("cr_store");
    if (access(command.c_str(), X_OK) != 0)
        return Error(ENOENT, fmt::format("{}: images in object stores are brought by cr_store, "
                                         "which is not here ({}); it is in the package cryo-store",
                                         place, command));
    Result<PipeEnds> ends = make_pipe();
    if (!ends)
        return ends.error();
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child < 0)
        return Error::from_errno("fork", errno);
    if (child == 0)
        become_store(command, place, directory, ends->write.get(), self);
    ends->write.reset();
    const Result<std::string> said = contents(ends->read.get(), "cr_store");
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!said)
        return said.error();
    const std::string end = WIFSIGNALED(status)
                                ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                : fmt::format("ended with status {}", WEXITSTATUS(status));
    return path_in(*said,
                   Error(EIO, fmt::format("{}: cr_store {}, and did not say why", place, end)));
}

} // namespace cryo::cli
