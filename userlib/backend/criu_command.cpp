// SPDX-License-Identifier: Apache-2.0
#include "backend/criu_command.hpp"

#include "backend/criu_stall.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

namespace cryo::backend {

namespace {

constexpr const char *way_out = "save the program with cr_run, which needs none of it";

// A user's PATH may lack the system's directories.
std::string path_of_criu()
{
    if (const char *given = sys::own_variable("CRYO_CRIU"))
        return access(given, X_OK) == 0 ? given : "";
    const char *path = getenv("PATH");
    std::string all =
        fmt::format("{}:/usr/local/sbin:/usr/sbin:/sbin", path != nullptr ? path : "");
    for (size_t at = 0; at <= all.size();) {
        const size_t end = std::min(all.find(':', at), all.size());
        std::string candidate = all.substr(at, end - at) + "/criu";
        if (candidate.front() == '/' && access(candidate.c_str(), X_OK) == 0)
            return candidate;
        at = end + 1;
    }
    return {};
}

// Resets inherited state to what an ordinary command expects.
void become_ordinary(Group group)
{
    if (group == Group::own)
        setpgid(0, 0);
    for (const int signal : {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ, SIGCHLD})
        ::signal(signal, SIG_DFL);
    // A criu that is killed half-way would leave half of a program.
    sigset_t held;
    sigemptyset(&held);
    if (group == Group::callers) {
        for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
            sigaddset(&held, signal);
    }
    sigprocmask(SIG_SETMASK, &held, nullptr);
    setenv("CRYO_OUTSIDE", "1", 1);
    unsetenv("LD_PRELOAD"); // Cryo's own library, if this command runs under cr_run itself
}

// "(00.012) Error (criu/files.c:12): text" → "text"; empty if the line is no error.
std::string text_of(const std::string &line)
{
    constexpr std::string_view mark = "Error (";
    const size_t at = line.find(mark);
    const size_t end = at == std::string::npos ? at : line.find("): ", at);
    if (end == std::string::npos)
        return {};
    std::string text = line.substr(end + 3);
    // Skip what every failure ends with, and the exits of helpers that only try something.
    for (const std::string_view empty : {"exited, status=", "Dumping FAILED", "Restoring FAILED"}) {
        if (text.rfind(empty, 0) == 0)
            return {};
    }
    return text;
}

std::string telling_lines(const std::string &log)
{
    constexpr size_t most = 4;
    std::ifstream file(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) {
        std::string text = text_of(line);
        if (!text.empty() && std::find(lines.begin(), lines.end(), text) == lines.end())
            lines.push_back(std::move(text));
    }
    // Keep the first: the cause comes first, its consequences later.
    if (lines.size() > most)
        lines.resize(most);
    std::string all;
    for (const std::string &line : lines)
        all += (all.empty() ? "" : "; ") + line;
    if (all.find("--tcp-established") != std::string::npos)
        all += " (with us: --sockets=close, and it comes back as closed)";
    return all;
}

int status_of(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return status;
}

} // namespace

Result<void> CriuRun::wait(const std::string &log) const
{
    const int status = status_of(pid_);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return {};
    std::string why = telling_lines(log);
    if (why.empty())
        why = WIFEXITED(status) ? fmt::format("ended with status {}", WEXITSTATUS(status))
                                : fmt::format("was ended by signal {}", WTERMSIG(status));
    return Error(ENOTSUP, "criu: " + why);
}

Result<void> CriuRun::wait_for_restore(const std::string &log, pid_t root) const
{
    constexpr int moment_ms = 200;
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
    pollfd end = {process.get(), POLLIN, 0};
    std::optional<CriuStall> stall;
    while (process && poll(&end, 1, moment_ms) <= 0) {
        if (!stall && !telling_lines(log).empty())
            stall.emplace(pid_, root, log);
        if (stall && stall->is_over()) {
            stall->end();
            break;
        }
    }
    return wait(log);
}

Result<CriuCommand> CriuCommand::find()
{
    CriuCommand command;
    command.path_ = path_of_criu();
    if (command.path_.empty())
        return Error(ENOENT, fmt::format("backend criu: criu is not installed here (Debian: apt "
                                         "install criu); or {}",
                                         way_out));
    if (geteuid() != 0)
        return Error(EPERM, fmt::format("backend criu: criu works for root only; or {}", way_out));
    char log[] = "/tmp/cryo-criu.XXXXXX";
    const Fd output(mkostemp(log, O_CLOEXEC));
    if (!output)
        return Error::from_errno("/tmp", errno);
    const auto ask = [&](std::vector<std::string> words) -> Result<void> {
        const std::pair<int, int> both[] = {{output.get(), 1}, {output.get(), 2}};
        Result<CriuRun> run =
            command.start(std::move(words), Group::own, {std::begin(both), std::end(both)});
        return run ? run->wait(log) : run.error();
    };
    Result<void> able = ask({"--version"});
    std::ifstream text(log);
    std::string word;
    if (text >> word >> command.version_)
        command.version_ = "criu " + command.version_;
    if (able)
        able = ask({"check"});
    unlink(log);
    if (!able)
        return Error(ENOTSUP, fmt::format("backend criu: {} cannot work on this kernel: {}; or {}",
                                          command.version_.empty() ? "criu" : command.version_,
                                          able.error().text(), way_out));
    return command;
}

Result<CriuRun> CriuCommand::start(std::vector<std::string> words, Group group,
                                   const std::vector<std::pair<int, int>> &descriptors,
                                   std::string variable) const
{
    words.insert(words.begin(), path_);
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t pid = fork();
    if (pid < 0)
        return Error::from_errno("fork", errno);
    if (pid != 0)
        return CriuRun(pid);
    become_ordinary(group);
    if (!variable.empty())
        putenv(variable.data());
    // Move them up first: no target number may overwrite a descriptor that is still needed.
    constexpr int out_of_the_way = 64;
    std::vector<std::pair<int, int>> moved;
    moved.reserve(descriptors.size());
    for (const auto &[ours, its] : descriptors)
        moved.emplace_back(fcntl(ours, F_DUPFD_CLOEXEC, out_of_the_way), its);
    for (const auto &[from, its] : moved)
        dup2(from, its);
    execv(path_.c_str(), arguments.data());
    _exit(127);
}

} // namespace cryo::backend
