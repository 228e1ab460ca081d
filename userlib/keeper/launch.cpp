// SPDX-License-Identifier: Apache-2.0
#include "keeper/launch.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "cli/json_text.hpp"
#include "cli/place.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

constexpr int program_fd = 3;

std::string own_directory()
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    const std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
    return path.substr(0, path.rfind('/'));
}

// In the keeper: its settings on 0, its answer on 1, the user's standard error on 2, the program
// on 3.
[[noreturn]] void become_keeper(const std::string &path, const std::string &pid, const Fd &settings,
                                const Fd &answer, const Fd &program)
{
    // Move them above the numbers that are assigned next, so that none is overwritten.
    const int from[] = {fcntl(settings.get(), F_DUPFD, program_fd + 1),
                        fcntl(answer.get(), F_DUPFD, program_fd + 1), -1,
                        fcntl(program.get(), F_DUPFD, program_fd + 1)};
    for (int to = 0; to <= program_fd; to++) {
        if (from[to] >= 0)
            dup2(from[to], to);
    }
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        open("/dev/null", O_WRONLY);
    close_range(program_fd + 1, ~0U, 0);
    setsid();
    unsetenv("LD_PRELOAD");
    setenv("CRYO_OUTSIDE", "1", 1);
    // The keeper is given orders by these, and would be ended by one that comes before it takes
    // them.
    sigset_t orders;
    sigemptyset(&orders);
    sigaddset(&orders, SIGTERM);
    sigaddset(&orders, SIGUSR1);
    sigprocmask(SIG_SETMASK, &orders, nullptr);
    execl(path.c_str(), path.c_str(), pid.c_str(), nullptr);
    const std::string text = Error::from_errno(path, errno).text();
    _exit(write(STDOUT_FILENO, text.data(), text.size()) < 0 ? 2 : 1);
}

} // namespace

Result<pid_t> launch(Settings settings, pid_t pid)
{
    if (pid == 1)
        return Error(EINVAL, "--interval: the program is process 1 and would have to wait for the "
                             "keeper as for a child; start an init before it");
    settings.commands = own_directory();
    const Fd program(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!program)
        return Error::from_errno("pidfd_open", errno);
    Result<PipeEnds> said = make_pipe();
    Result<PipeEnds> answer = make_pipe();
    Result<PipeEnds> number = make_pipe();
    if (!said || !answer || !number)
        return !said ? said.error() : !answer ? answer.error() : number.error();
    const nlohmann::json all = settings;
    const std::string *name = cli::not_utf8(all);
    name = name != nullptr ? name : cli::not_utf8(all.at("common"));
    if (name != nullptr)
        return Error(EILSEQ, fmt::format("{}: is not UTF-8: automatic checkpoints cannot have such "
                                         "a name",
                                         *name));
    const std::string text = all.dump();
    if (text.size() > PIPE_BUF ||
        write(said->write.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        return Error(E2BIG, "the settings of automatic checkpoints are too long");
    said->write.reset();

    const std::string path = cli::library("cryo/keeper");
    const pid_t between = fork();
    if (between < 0)
        return Error::from_errno("fork", errno);
    if (between == 0) {
        const pid_t keeper = fork();
        if (keeper == 0)
            become_keeper(path, std::to_string(pid), said->read, answer->write, program);
        _exit(keeper > 0 && write(number->write.get(), &keeper, sizeof(keeper)) == sizeof(keeper)
                  ? 0
                  : 1);
    }
    int status = 0;
    while (waitpid(between, &status, 0) < 0 && errno == EINTR)
        ;
    pid_t keeper = 0;
    if (status != 0 || read(number->read.get(), &keeper, sizeof(keeper)) != sizeof(keeper))
        return Error(EAGAIN, "no process for automatic checkpoints could be made");
    answer->write.reset();
    std::string trouble;
    char buffer[1024];
    for (ssize_t got; (got = read(answer->read.get(), buffer, sizeof(buffer))) != 0;) {
        if (got > 0)
            trouble.append(buffer, static_cast<size_t>(got));
        else if (errno != EINTR)
            break;
    }
    if (!trouble.empty())
        return Error(EINVAL, trouble);
    return keeper;
}

} // namespace cryo::keeper
