// SPDX-License-Identifier: Apache-2.0
#include "server/transfer.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "cli/error_json.hpp"
#include "cli/place.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cryo::server {

namespace {

using nlohmann::json;

constexpr const char *helper_name = "server-client";
constexpr size_t most_line = size_t(64) << 20; // a list of all images of a server

// The image is its standard input, whatever the direction.
[[noreturn]] void execute(pid_t parent, std::vector<char *> &arguments, int image, int output)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    const int input = image >= 0 ? image : open("/dev/null", O_RDWR | O_CLOEXEC);
    const int high_input = fcntl(input, F_DUPFD_CLOEXEC, 10);
    const int high_output = fcntl(output, F_DUPFD_CLOEXEC, 10);
    if (dup2(high_input, STDIN_FILENO) < 0 || dup2(high_output, STDOUT_FILENO) < 0)
        _exit(127);
    for (const int usual : {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ})
        signal(usual, SIG_DFL);
    execv(arguments.front(), arguments.data());
    _exit(127);
}

class Helper
{
  public:
    static Result<Helper> start(std::vector<std::string> words, int image);
    Helper(Helper &&other) noexcept
        : pid_(std::exchange(other.pid_, 0)), output_(std::move(other.output_))
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

  private:
    Helper(pid_t pid, Fd output) : pid_(pid), output_(std::move(output)) {}

    pid_t pid_;
    Fd output_;
    std::string ahead_;
};

// In the folder of libraries, or beside a program that is in it, as the keeper is.
Result<std::string> find_helper()
{
    const std::string usual = cli::library(std::string("cryo/") + helper_name);
    for (const std::string &path : {usual, cli::command(helper_name)}) {
        if (access(path.c_str(), X_OK) == 0)
            return path;
    }
    return Error(ENOENT, usual + ": is not there, and images are sent and fetched by it");
}

Result<Helper> Helper::start(std::vector<std::string> words, int image)
{
    const Result<std::string> program = find_helper();
    if (!program)
        return program.error();
    words.insert(words.begin(), *program);
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
        execute(parent, arguments, image, output->write.get());
    return Helper(pid, std::move(output->read));
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
            return Error::from_errno(helper_name, errno);
        ahead_.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
        if (ahead_.size() > most_line)
            return Error(EPROTO, std::string(helper_name) + ": says too much");
    }
}

// What it says at its end.
Result<json> run(std::vector<std::string> words, int image, const TellProgress &progress)
{
    Result<Helper> helper = Helper::start(std::move(words), image);
    if (!helper)
        return helper.error();
    for (;;) {
        const Result<std::string> line = helper->line();
        if (!line)
            return line.error();
        const json said = json::parse(*line, nullptr, false);
        if (line->empty() || !said.is_object()) {
            const int status = helper->await_end();
            return Error(EIO, fmt::format("{} has ended before it was done (status {})",
                                          helper_name, status));
        }
        if (said.contains("error"))
            return cli::error_from(said.at("error"));
        if (!said.contains("done"))
            return said;
        if (progress)
            progress(said.at("done").get<uint64_t>(), said.at("of").get<uint64_t>());
    }
}

Stored stored_in(const json &said)
{
    return {.image = {said.at("series"), said.at("name")},
            .number = said.at("number"),
            .bytes = said.at("bytes"),
            .checksum = said.at("checksum")};
}

Result<Stored> run_for_one(std::vector<std::string> words, int image, const TellProgress &progress)
{
    const Result<json> said = run(std::move(words), image, progress);
    if (!said)
        return said.error();
    return stored_in(*said);
}

} // namespace

Result<Stored> send_image(const Url &url, int fd, const Sending &how)
{
    std::vector<std::string> words = {"put", url.text(), fmt::format("--rate={}", how.rate)};
    if (how.replace)
        words.emplace_back("--replace");
    return run_for_one(std::move(words), fd, how.progress);
}

Result<Stored> fetch_image(const Url &url, int fd, const TellProgress &progress)
{
    return run_for_one({"get", url.text()}, fd, progress);
}

Result<std::vector<Stored>> list_images(const Url &url)
{
    const Result<json> said = run({"list", url.text()}, -1, {});
    if (!said)
        return said.error();
    std::vector<Stored> all;
    for (const json &one : said->at("images"))
        all.push_back(stored_in(one));
    return all;
}

Result<void> remove_image(const Url &url, const std::string &checksum)
{
    const Result<json> said = run({"remove", url.text(), "--checksum", checksum}, -1, {});
    return said ? Result<void>() : Result<void>(said.error());
}

} // namespace cryo::server
