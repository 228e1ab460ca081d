// SPDX-License-Identifier: Apache-2.0
#include "keeper/slurm.hpp"

#include "base/clock.hpp"
#include "base/pipe.hpp"
#include "base/printable.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <initializer_list>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <vector>

namespace cryo::keeper::slurm {

namespace {

namespace fs = std::filesystem;

constexpr int patience_ms = 5000; // the program waits for its start meanwhile
constexpr int grace_ms = 1000;    // for the end of a squeue that was killed
constexpr size_t longest = 65536; // of an answer: arrays have many elements

bool is_number(std::string_view text)
{
    constexpr size_t most_digits = 12;
    return !text.empty() && text.size() <= most_digits &&
           text.find_first_not_of("0123456789") == text.npos;
}

// Neither the file nor a directory above it.
bool others_may_change(const fs::path &file)
{
    struct stat status;
    for (fs::path at = file;; at = at.parent_path()) {
        if (lstat(at.c_str(), &status) != 0 || status.st_uid != 0 ||
            (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
            return true;
        if (at == at.root_path())
            return false;
    }
}

bool begins_with_one_of(std::string_view text, std::initializer_list<std::string_view> beginnings)
{
    return std::ranges::any_of(beginnings,
                               [&](std::string_view one) { return text.starts_with(one); });
}

// Where root's programs look for what they execute, load or read first.
bool leads_programs(std::string_view variable)
{
    return begins_with_one_of(variable,
                              {"PATH=", "BASH_", "SHELLOPTS=", "PS4=", "ENV=", "PYTHON", "PERL5",
                               "LD_", "GCONV_PATH=", "SLURM_CONF=", "SLURM_CONF_SERVER="});
}

std::vector<char *> pointers(std::vector<std::string> &words)
{
    std::vector<char *> all;
    all.reserve(words.size() + 1);
    for (std::string &word : words)
        all.push_back(word.data());
    all.push_back(nullptr);
    return all;
}

// In a process group of its own, so that a wrapper is ended together with what it waits for.
Result<pid_t> start(const std::string &squeue, const std::string &job, const Fd &output)
{
    std::vector<std::string> words = {squeue, "-h", "-a", "-j", job, "-o", "%A %e"};
    std::vector<std::string> variables = environment_of_squeue(geteuid());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, squeue.c_str(), &actions, &attributes,
                                  pointers(words).data(), pointers(variables).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return Error::from_errno(squeue, error);
    return pid;
}

// False: not within that time.
bool await(int fd, int64_t until_ns)
{
    for (;;) {
        const int64_t left_ms = (until_ns - clock_ns(CLOCK_MONOTONIC)) / 1'000'000;
        pollfd one = {fd, POLLIN, 0};
        const int ready = poll(&one, 1, static_cast<int>(std::max<int64_t>(0, left_ms)));
        if (ready > 0)
            return true;
        if (ready == 0 || errno != EINTR)
            return false;
    }
}

// All that comes until its end; no value: that did not come in time.
std::optional<std::string> read_all(const Fd &from, int64_t until_ns)
{
    std::string said;
    char buffer[512];
    while (said.size() <= longest && await(from.get(), until_ns)) {
        const ssize_t got = read(from.get(), buffer, sizeof(buffer));
        if (got > 0)
            said.append(buffer, static_cast<size_t>(got));
        else if (got == 0)
            return said;
        else if (errno != EINTR)
            break;
    }
    return {};
}

// One that has not ended by then is killed. Who ignores the ends of children does not learn how
// they ended.
bool ends_well(pid_t pid, int64_t until_ns)
{
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!process || !await(process.get(), until_ns)) {
        kill(-pid, SIGKILL);
        if (process)
            await(process.get(), clock_ns(CLOCK_MONOTONIC) + int64_t(grace_ms) * 1'000'000);
    }
    int status = 0;
    const pid_t ended = waitpid(pid, &status, process ? WNOHANG : 0);
    return (ended == pid && status == 0) || (ended < 0 && errno == ECHILD);
}

Result<std::optional<double>> ask_controller(const std::string &job)
{
    const Result<std::string> squeue = find_squeue(getenv("PATH"), geteuid());
    if (!squeue)
        return squeue.error();
    const Result<std::string> answer = ask(*squeue, job, patience_ms);
    return answer ? read_answer(*answer, job) : answer.error();
}

} // namespace

Result<std::string> find_squeue(const char *path, uid_t caller)
{
    std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
    std::string refused;
    for (std::string one; std::getline(directories, one, ':');) {
        std::error_code failed;
        const fs::path file = fs::canonical(fs::path(one) / "squeue", failed);
        if (failed || !one.starts_with('/') || access(file.c_str(), X_OK) != 0 ||
            !fs::is_regular_file(file, failed))
            continue;
        if (caller != 0 || !others_may_change(file))
            return file.string();
        refused = file;
    }
    return Error(ENOENT, refused.empty()
                             ? "no squeue is in PATH"
                             : refused + " is not executed by root: others may change it");
}

// Seconds since 1970 are the same in every time zone, and on the day when clocks are changed. The
// user's own settings for squeue would hide jobs; Cryo's library belongs to the program alone.
std::vector<std::string> environment_of_squeue(uid_t caller)
{
    std::vector<std::string> all = {"SLURM_TIME_FORMAT=%s"};
    for (char **one = environ; *one != nullptr; one++) {
        const bool ours =
            begins_with_one_of(*one, {"SLURM_TIME_FORMAT=", "SQUEUE_", "LD_PRELOAD="});
        if (!ours && (caller != 0 || !leads_programs(*one)))
            all.emplace_back(*one);
    }
    if (caller != 0)
        return all;
    all.emplace_back("PATH=/usr/sbin:/usr/bin:/sbin:/bin");
    const char *settings = getenv("SLURM_CONF");
    std::error_code failed;
    const fs::path file = settings != nullptr ? fs::canonical(settings, failed) : fs::path();
    if (!failed && !file.empty() && !others_may_change(file))
        all.push_back("SLURM_CONF=" + file.string());
    return all;
}

Result<std::string> ask(const std::string &squeue, const std::string &job, int limit_ms)
{
    Result<PipeEnds> answer = make_pipe();
    if (!answer)
        return answer.error();
    const int64_t until_ns = clock_ns(CLOCK_MONOTONIC) + int64_t(limit_ms) * 1'000'000;
    const Result<pid_t> pid = start(squeue, job, answer->write);
    if (!pid)
        return pid.error();
    answer->write.reset();
    const std::optional<std::string> said = read_all(answer->read, until_ns);
    const bool good = ends_well(*pid, said ? until_ns : 0);
    if (!said)
        return Error(ETIME, fmt::format("{} has not answered within {} s", squeue,
                                        static_cast<double>(limit_ms) / 1000));
    if (!good)
        return Error(EIO, fmt::format("{} does not know the job, or cannot ask", squeue));
    return *said;
}

Result<std::optional<double>> read_answer(std::string_view answer, std::string_view job)
{
    std::istringstream lines{std::string(answer)};
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string id;
        std::string end;
        std::string more;
        words >> id >> end;
        if (id != job)
            continue;
        if (words >> more)
            break;
        if (end == "NONE" || end == "N/A")
            return std::optional<double>();
        double at = 0;
        if (is_number(end) &&
            std::from_chars(end.data(), end.data() + end.size(), at).ec == std::errc())
            return std::optional<double>(at);
        break;
    }
    return Error(EPROTO, fmt::format("squeue says of the job: '{}'",
                                     printable(answer.substr(0, answer.find('\n')))));
}

bool in_job()
{
    return getenv("SLURM_JOB_END_TIME") != nullptr || getenv("SLURM_JOB_ID") != nullptr;
}

End end_of_job()
{
    const char *said = getenv("SLURM_JOB_END_TIME");
    if (said != nullptr && is_number(said))
        return {strtod(said, nullptr), {}};
    const char *job = getenv("SLURM_JOB_ID");
    if (job == nullptr || !is_number(job))
        return {0, "SLURM_JOB_ID is not the number of a job"};
    const Result<std::optional<double>> end = ask_controller(job);
    if (!end)
        return {0, end.error().text()};
    return {end->value_or(0), {}};
}

} // namespace cryo::keeper::slurm
