// SPDX-License-Identifier: Apache-2.0
#include "cli/helper.hpp"

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "cli/error_json.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cryo::cli {

namespace {

using nlohmann::json;

constexpr size_t most_line = size_t(64) << 20; // a list of all images of a server
constexpr int not_started = 127;

[[noreturn]] void execute(pid_t parent, std::vector<char *> &arguments,
                          const HelperOptions &options, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(not_started);
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    const int high_input = fcntl(options.input >= 0 ? options.input : nothing, F_DUPFD_CLOEXEC, 10);
    const int high_output = fcntl(output, F_DUPFD_CLOEXEC, 10);
    if ((options.quiet && dup2(nothing, STDERR_FILENO) < 0) || dup2(high_input, STDIN_FILENO) < 0 ||
        dup2(high_output, STDOUT_FILENO) < 0)
        _exit(not_started);
    for (const int usual : {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ})
        signal(usual, SIG_DFL);
    execv(arguments.front(), arguments.data());
    _exit(not_started);
}

class Helper
{
  public:
    static Result<Helper> start(std::vector<std::string> words, const HelperOptions &options);
    Helper(Helper &&other) noexcept
        : name_(std::move(other.name_)), pid_(std::exchange(other.pid_, 0)),
          output_(std::move(other.output_))
    {}
    ~Helper()
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
    // The next line that it says; "": there is none.
    Result<std::string> line();
    Error ended_early();

  private:
    Helper(std::string name, pid_t pid, Fd output)
        : name_(std::move(name)), pid_(pid), output_(std::move(output))
    {}

    std::string name_;
    pid_t pid_;
    Fd output_;
    std::string ahead_;
};

Result<Helper> Helper::start(std::vector<std::string> words, const HelperOptions &options)
{
    Result<PipeEnds> output = make_pipe();
    if (!output)
        return output.error();
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
        execute(parent, arguments, options, output->write.get());
    return Helper(split_path(words.front()).second, pid, std::move(output->read));
}

Result<std::string> Helper::line()
{
    for (;;) {
        if (const size_t end = ahead_.find('\n'); end != std::string::npos) {
            std::string found = ahead_.substr(0, end);
            ahead_.erase(0, end + 1);
            return found;
        }
        char bytes[16384];
        const ssize_t n = read(output_.get(), bytes, sizeof(bytes));
        if (n == 0)
            return std::string();
        if (n < 0 && errno != EINTR)
            return Error::from_errno(name_, errno);
        ahead_.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
        if (ahead_.size() > most_line)
            return Error(EPROTO, name_ + ": says too much");
    }
}

Error Helper::ended_early()
{
    output_.reset(); // what it still says is of no use, and it must not wait for us
    const int status = await_end();
    return {EIO, WIFSIGNALED(status) ? fmt::format("{} was ended by signal {}, before it was done",
                                                   name_, WTERMSIG(status))
                                     : fmt::format("{} has ended before it was done (status {})",
                                                   name_, WEXITSTATUS(status))};
}

} // namespace

Result<json> run_helper(std::vector<std::string> words, const HelperOptions &options)
{
    Result<Helper> helper = Helper::start(std::move(words), options);
    if (!helper)
        return helper.error();
    for (;;) {
        const Result<std::string> line = helper->line();
        if (!line)
            return line.error();
        const json said = json::parse(*line, nullptr, false);
        if (line->empty() || !said.is_object())
            return helper->ended_early();
        if (said.contains("error"))
            return error_from(said.at("error"));
        if (!said.contains("done"))
            return said;
        if (options.progress)
            options.progress(said.at("done").get<uint64_t>(), said.at("of").get<uint64_t>());
    }
}

} // namespace cryo::cli
