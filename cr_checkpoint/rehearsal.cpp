// SPDX-License-Identifier: Apache-2.0
#include "rehearsal.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "cli/error_json.hpp"
#include "cli/place.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using cryo::Error;
using cryo::Fd;
using cryo::Result;

constexpr int heartbeat_fd = 3;
constexpr int teller_fd = 4;

// A running cr_restart: it ends with this process, and its namespaces with it.
class Child
{
  public:
    static Result<Child> start(const std::string &place, int output, int heartbeat, int teller);
    Child(Child &&other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
    ~Child()
    {
        if (pid_ > 0)
            kill(pid_, SIGKILL);
        await_end();
    }

    int await_end()
    {
        int status = -1; // what cannot be waited for has not succeeded
        while (pid_ > 0 && waitpid(pid_, &status, 0) < 0 && errno == EINTR)
            ;
        pid_ = 0;
        return status;
    }

  private:
    explicit Child(pid_t pid) : pid_(pid) {}

    pid_t pid_;
};

// Descriptors are first moved out of the way of their final numbers.
[[noreturn]] void execute(pid_t parent, std::vector<char *> &arguments, int output, int heartbeat,
                          int teller)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int from[] = {null, output, null, heartbeat, teller};
    int high[std::size(from)];
    for (size_t i = 0; i < std::size(from); i++)
        high[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 10);
    for (size_t i = 0; i < std::size(from); i++)
        dup2(high[i], static_cast<int>(i)); // without a teller this one fails
    static_assert(std::size(from) == teller_fd + 1);
    for (const int usual : {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ})
        signal(usual, SIG_DFL);
    execv(arguments.front(), arguments.data());
    _exit(127);
}

Result<Child> Child::start(const std::string &place, int output, int heartbeat, int teller)
{
    std::vector<std::string> words = {cryo::cli::command("cr_restart"), "--rehearse", "--json",
                                      "--heartbeat", std::to_string(heartbeat_fd)};
    if (teller >= 0)
        words.insert(words.end(), {"--owner-teller", std::to_string(teller_fd)});
    words.insert(words.end(), {"--", place});
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0)
        return Error::from_errno("fork", errno);
    if (pid == 0)
        execute(parent, arguments, output, heartbeat, teller);
    return Child(pid);
}

// The output of cr_restart until its end; or an error when it makes no progress for too long.
Result<std::string> listen(const Fd &output, Fd &heartbeat, unsigned patience_s,
                           const std::function<void()> &alive)
{
    std::string text;
    for (;;) {
        pollfd ready[] = {{output.get(), POLLIN, 0}, {heartbeat.get(), POLLIN, 0}};
        const int found = poll(ready, 2, static_cast<int>(patience_s) * 1000);
        if (found == 0)
            return Error(ETIMEDOUT,
                         fmt::format("the rehearsal has made no progress for {} s", patience_s));
        if (found < 0 && errno != EINTR)
            return Error::from_errno("poll", errno);
        if (found < 0)
            continue;
        alive();
        char buffer[4096];
        if (ready[1].revents != 0 && read(heartbeat.get(), buffer, sizeof(buffer)) <= 0)
            heartbeat.reset(); // poll(2) passes over it now
        if (ready[0].revents == 0)
            continue;
        const ssize_t n = read(output.get(), buffer, sizeof(buffer));
        if (n <= 0)
            return text;
        text.append(buffer, static_cast<size_t>(n));
    }
}

// Replaces the name that the image had during the rehearsal.
std::string with_name(std::string text, const std::string &place, const std::string &name)
{
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos; at += name.size())
        text.replace(at, place.size(), name);
    return text;
}

} // namespace

Result<void> rehearse(const std::string &place, const std::string &name, unsigned patience_s,
                      int teller, const std::function<void()> &alive)
{
    Result<cryo::PipeEnds> output = cryo::make_pipe();
    Result<cryo::PipeEnds> heartbeat = cryo::make_pipe();
    if (!output || !heartbeat)
        return !output ? output.error() : heartbeat.error();
    Result<Child> child = Child::start(place, output->write.get(), heartbeat->write.get(), teller);
    if (!child)
        return child.error();
    output->write.reset();
    heartbeat->write.reset();
    Result<std::string> said = listen(output->read, heartbeat->read, patience_s, alive);
    if (!said)
        return said.error();
    const int status = child->await_end();
    if (status == 0)
        return {};
    const auto json = nlohmann::json::parse(*said, nullptr, false);
    if (json.is_object() && json.contains("error")) {
        const Error error = cryo::cli::error_from(json["error"]);
        return error.with_text(with_name(error.text(), place, name));
    }
    return Error(ECHILD,
                 fmt::format("the rehearsal failed: cr_restart ended with status {:#x}", status));
}
