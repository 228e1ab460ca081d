// SPDX-License-Identifier: Apache-2.0
#include "coord/within.hpp"

#include "base/contents.hpp"
#include "base/directory.hpp"
#include "coord/launch.hpp"
#include "coord/place.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

constexpr const char *left_name = ".variables";
constexpr size_t most_variables = 1 << 20; // bytes

// 0: there is none, or it may not be seen.
pid_t parent_of(pid_t pid)
{
    const Result<std::string> text = contents(fmt::format("/proc/{}/stat", pid));
    const size_t name = text ? text->rfind(')') : std::string::npos; // the name may have ) in it
    if (name == std::string::npos)
        return 0;
    std::istringstream rest(text->substr(name + 1));
    char state = 0;
    pid_t parent = 0;
    rest >> state >> parent;
    return parent;
}

pid_t launcher_above()
{
    std::error_code ignored;
    for (pid_t pid = getppid(); pid > 1; pid = parent_of(pid)) {
        if (is_launcher(fs::read_symlink(fmt::format("/proc/{}/exe", pid), ignored)))
            return pid;
    }
    return 0;
}

Result<Fd> lock_runtime(const std::string &runtime)
{
    if (Result<void> made = make_private(runtime); !made)
        return made.error();
    const std::string name = runtime + "/.lock";
    Fd lock(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock)
        return Error::from_errno(name, errno);
    while (flock(lock.get(), LOCK_EX) != 0) {
        if (errno != EINTR)
            return Error::from_errno(name, errno);
    }
    return lock;
}

// Written at once, by rename, and readable by this user only: it has the secret.
Result<void> leave(const Variables &variables)
{
    const Result<Job> job = job_from(variables);
    if (!job)
        return job.error();
    const std::string path = job->directory + "/" + left_name, fresh = path + ".tmp";
    std::string text;
    for (const auto &[name, value] : variables)
        text += fmt::format("{}={}\n", name, value);
    const Fd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        rename(fresh.c_str(), path.c_str()) != 0)
        return Error::from_errno(path, errno);
    return {};
}

} // namespace

bool is_rank(const Variables &environment)
{
    constexpr const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    return std::ranges::any_of(names, [&](const char *name) { return environment.contains(name); });
}

bool is_first_of_node(const Variables &environment)
{
    for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
        if (const auto found = environment.find(name); found != environment.end())
            return found->second == "0";
    }
    return true;
}

Result<Within> job_from_within()
{
    Within job;
    job.launcher = launcher_above();
    if (job.launcher == 0)
        return Error(ENOENT, "the launcher is not on this node");
    char runtime[PATH_MAX];
    if (!runtime_directory(environ, runtime, sizeof(runtime)))
        return Error(ENAMETOOLONG, "CRYO_RUNTIME_DIR is too long");
    const Result<Fd> lock = lock_runtime(runtime); // only one rank starts the job
    if (!lock)
        return lock.error();
    if (Result<Variables> left = left_by_ranks(job.launcher, runtime)) {
        job.variables = std::move(*left);
        return job;
    }
    Result<Variables> made = start_job(job.launcher);
    if (!made)
        return made.error();
    job.variables = std::move(*made);
    job.variables["CRYO_RUNTIME_DIR"] = runtime;
    job.is_new = true;
    Result<void> told = leave(job.variables);
    return told ? Result<Within>(std::move(job)) : told.error();
}

Result<Variables> left_by_ranks(pid_t launcher, const std::string &runtime)
{
    // Any user may have made a directory of this name in /tmp, and its owner, whose launcher root
    // may ask about, anything in it: all of it is read by descriptor, as no more than regular
    // files.
    struct stat process = {}, owner = {};
    const Result<Directory> directory = Directory::open(runtime);
    if (!directory || stat(fmt::format("/proc/{}", launcher).c_str(), &process) != 0 ||
        fstat(directory->fd(), &owner) != 0 || owner.st_uid != process.st_uid ||
        (owner.st_mode & 077) != 0)
        return Error(ENOENT, "no directory of its owner's");
    const Result<std::vector<std::string>> names = directory->names();
    if (!names)
        return names.error();
    for (const std::string &name : *names) {
        if (!name.starts_with(fmt::format("{}-", launcher)))
            continue;
        const Result<Directory> of_job = directory->enter(name);
        const Result<std::string> text =
            of_job ? of_job->read(left_name, most_variables) : of_job.error();
        if (!text)
            continue;
        std::istringstream in(*text);
        Variables variables;
        for (std::string line; std::getline(in, line);) {
            if (const size_t equals = line.find('='); equals != std::string::npos)
                variables.emplace(line.substr(0, equals), line.substr(equals + 1));
        }
        // The daemon ends with its launcher: if it answers, the
        // job is not that of an earlier process with this id.
        variables["CRYO_RUNTIME_DIR"] = runtime;
        const Result<Job> job = job_from(variables);
        const Result<Fd> root = job ? connect_root(*job) : job.error();
        if (root)
            return variables;
        if (root.error().code() == ETIMEDOUT) // any number of them would take as many waits
            return root.error();
    }
    return Error(ENOENT, "no rank of it was started under cr_run");
}

} // namespace cryo::coord
