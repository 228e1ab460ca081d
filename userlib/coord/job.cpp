// SPDX-License-Identifier: Apache-2.0
#include "coord/job.hpp"

#include "base/contents.hpp"
#include "base/directory.hpp"
#include "cli/place.hpp"
#include "coord/left_memory.hpp"
#include "coord/place.hpp"
#include "coord/within.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace cryo::coord {

namespace {

constexpr const char *job_mark = ".cryo-job";
constexpr const char *alive_prefix = ".alive."; // and the node: locked by the node's daemon

std::vector<std::string> split(const std::string &text, char at)
{
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, at);)
        parts.push_back(part);
    return parts;
}

Variables variables_of(const std::string &joined)
{
    Variables variables;
    for (const std::string &one : split(joined, '\0')) {
        const size_t equals = one.find('=');
        if (equals != std::string::npos)
            variables.emplace(one.substr(0, equals), one.substr(equals + 1)); // the first counts
    }
    return variables;
}

std::vector<std::string> assigned(const Variables &variables)
{
    std::vector<std::string> all;
    all.reserve(variables.size());
    for (const auto &[name, value] : variables)
        all.push_back(fmt::format("{}={}", name, value));
    return all;
}

std::vector<const char *> as_list(const std::vector<std::string> &words)
{
    std::vector<const char *> list;
    list.reserve(words.size() + 1);
    for (const std::string &word : words)
        list.push_back(word.c_str());
    list.push_back(nullptr);
    return list;
}

Result<sockaddr_un> address_of(const std::string &path)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path))
        return Error(
            ENAMETOOLONG,
            fmt::format("{}: too long for a socket; set CRYO_RUNTIME_DIR to a short path", path));
    memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

} // namespace

std::string Job::text() const
{
    return fmt::format("{}:{}:{}:{}", id, secret, port, fmt::join(addresses, ","));
}

Result<Job> job_from(const Variables &variables)
{
    const auto at = variables.find(job_variable);
    if (at == variables.end())
        return Error(ENOENT, "it was not started under cr_run");
    const std::vector<std::string> all = assigned(variables);
    const std::vector<std::string> parts = split(at->second, ':');
    char directory[PATH_MAX];
    if (parts.size() < 3 || !job_directory(as_list(all).data(), directory, sizeof(directory)))
        return Error(EINVAL, "its CRYO_JOB is damaged");
    Job job;
    job.id = parts[0];
    job.secret = parts[1];
    job.port = static_cast<uint16_t>(atoi(parts[2].c_str()));
    const size_t fixed = parts[0].size() + parts[1].size() + parts[2].size() + 3;
    if (at->second.size() > fixed)
        job.addresses = split(at->second.substr(fixed), ',');
    job.directory = directory;
    job.launcher = atoi(job.id.c_str());
    return job;
}

Variables own_variables()
{
    Variables variables;
    for (char **one = environ; *one != nullptr; one++) {
        const char *equals = strchr(*one, '=');
        if (equals != nullptr)
            variables.emplace(std::string(static_cast<const char *>(*one), equals), equals + 1);
    }
    return variables;
}

// Whether it runs a command that executes mpirun in its place, with the job's variables.
static bool becomes_launcher(pid_t pid)
{
    std::error_code ignored;
    const std::string name =
        std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored).filename();
    return name == "cr_run" || name == "ompi-restart";
}

// Whether it has an environment, as /proc/PID/stat knows it without reading it. Neither while a
// program is executed: it has none then until it is set up.
enum class Environment { none, empty, some };

static Environment environment_of(pid_t pid)
{
    constexpr int env_start = 50; // of the fields of /proc/PID/stat; the third follows the name
    std::ifstream in(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(in, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1)); // the name may have ) in it
    std::string word;
    for (int field = 3; field < env_start && fields >> word; field++) {
    }
    std::string start;
    std::string end;
    if (!(fields >> start >> end) || start == end)
        return start == "0" ? Environment::none : Environment::empty;
    return end == "0" ? Environment::none : Environment::some;
}

Result<Variables> variables_of(pid_t pid)
{
    const Result<std::string> all = contents(fmt::format("/proc/{}/environ", pid));
    if (!all && all.error().code() == EACCES)
        return Error(EACCES, fmt::format("process {}: belongs to somebody else", pid));
    if (!all && (all.error().code() == ENOENT || all.error().code() == ESRCH))
        return Error(ESRCH,
                     fmt::format("process {}: there is none; is this the PID of mpirun?", pid));
    if (!all)
        return all.error();
    return variables_of(*all);
}

// The program below a cr_run that stays in front of it (--recover); 0: this is none.
static pid_t below_supervisor(pid_t pid)
{
    std::error_code ignored;
    if (std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored).filename() !=
        "cr_run")
        return 0;
    std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, pid));
    for (pid_t child; children >> child;) {
        const Result<Variables> found = variables_of(child);
        if (found && found->contains(job_variable))
            return child;
    }
    return 0;
}

Result<Job> job_of(pid_t pid)
{
    if (const pid_t launcher = below_supervisor(pid); launcher != 0)
        return job_of(launcher);
    // Checked before its environment is read: in between it may become mpirun.
    const bool becomes = becomes_launcher(pid) || environment_of(pid) == Environment::none;
    Result<Variables> found = variables_of(pid);
    if (!found)
        return found.error();
    // Nothing is read of a program that another one has replaced since the file was opened.
    const bool replaced = found->empty() && environment_of(pid) != Environment::empty;
    Variables &variables = *found;
    // The runtime directory's default is that of the job's owner, even if root asks.
    if (variables.count("CRYO_RUNTIME_DIR") == 0) {
        struct stat status = {};
        const std::vector<std::string> all = assigned(variables);
        char runtime[PATH_MAX];
        if (stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 &&
            runtime_directory(as_list(all).data(), status.st_uid, runtime, sizeof(runtime)))
            variables["CRYO_RUNTIME_DIR"] = runtime;
    }
    Result<Job> job = job_from(variables);
    if (!job) { // its ranks may have made a job of it
        if (Result<Variables> left = left_by_ranks(pid, variables["CRYO_RUNTIME_DIR"]))
            job = job_from(*left);
    }
    if (!job && (becomes || replaced))
        return Error(EAGAIN, fmt::format("process {} has not become mpirun yet", pid));
    if (!job)
        return Error(job.error().code(),
                     fmt::format("process {}: {}; start the job as `cr_run mpirun ...`", pid,
                                 job.error().text()));
    return job;
}

Result<void> make_private(const std::string &path)
{
    if (mkdir(path.c_str(), 0700) == 0)
        return {};
    if (errno != EEXIST)
        return Error::from_errno(path, errno);
    struct stat status = {};
    if (lstat(path.c_str(), &status) != 0)
        return Error::from_errno(path, errno);
    if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 077) != 0)
        return Error(EACCES,
                     fmt::format("{}: is not a directory of yours alone (mode 0700); remove "
                                 "it, or name another one in CRYO_RUNTIME_DIR",
                                 path));
    return {};
}

static int lock(const Fd &file, int how)
{
    int failed;
    while ((failed = flock(file.get(), how)) != 0 && errno == EINTR) {
    }
    return failed;
}

Result<Held> hold_directories(const std::string &runtime, const std::string &job,
                              const std::string &node)
{
    if (Result<void> made = make_private(runtime); !made)
        return made.error();
    // Until this daemon has its lock, sweep_directories() removes nothing.
    const Fd all(open(runtime.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!all)
        return Error::from_errno(runtime, errno);
    lock(all, LOCK_SH);
    if (Result<void> made = make_private(job); !made)
        return made.error();
    const Result<Directory> directory = Directory::open(job);
    if (!directory)
        return directory.error();
    // The mark keeps anything else from being taken for a job's directory.
    const Fd mark(
        openat(directory->fd(), job_mark, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!mark)
        return Error::from_errno(directory->path(job_mark), errno);
    const std::string name = alive_prefix + node;
    Fd alive(
        openat(directory->fd(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!alive)
        return Error::from_errno(directory->path(name), errno);
    lock(alive, LOCK_SH); // where there are no locks, nothing is removed either
    Fd whole(fcntl(directory->fd(), F_DUPFD_CLOEXEC, 0));
    if (!whole)
        return Error::from_errno(job, errno);
    lock(whole, LOCK_SH);
    return Held{std::move(alive), std::move(whole)};
}

Result<std::string> make_runtime(const std::string &usual)
{
    Result<void> made = make_private(usual);
    if (made)
        return usual;
    if (made.error().code() != EACCES || !usual.starts_with(common_runtime))
        return made.error();
    std::string other = usual + ".XXXXXX";
    if (mkdtemp(other.data()) == nullptr)
        return made.error();
    return other;
}

// Whether a daemon uses it: on this node, or on another one that sees the same directory.
static bool is_held(const Directory &job)
{
    const Result<std::vector<std::string>> names = job.names();
    if (!names)
        return true;
    for (const std::string &name : *names) {
        if (!name.starts_with(alive_prefix))
            continue;
        const Fd alive(
            openat(job.fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (alive ? lock(alive, LOCK_EX | LOCK_NB) != 0 : errno != ENOENT)
            return true;
    }
    return false;
}

static void remove_job_directory(const Directory &runtime, const std::string &id)
{
    const Result<Directory> job = runtime.enter(id);
    if (!job)
        return;
    const Result<std::optional<struct stat>> mark = job->look(job_mark);
    if (!mark || !mark->has_value())
        return; // not a job's, whatever its name
    if (is_held(*job) || !sweep_left_memory(common_memory, id))
        return;
    job->clear();
    static_cast<void>(runtime.remove(id));
}

void sweep_directories(const std::string &path)
{
    const Result<Directory> runtime = Directory::open(path);
    const Result<std::vector<std::string>> names = runtime ? runtime->names() : runtime.error();
    if (!names)
        return;
    for (const std::string &id : *names) {
        // A launcher on another node is not seen here: then the daemons' locks tell.
        const pid_t launcher = atoi(id.c_str());
        if (launcher <= 0 || kill(launcher, 0) == 0 || errno != ESRCH)
            continue;
        // Daemons of an earlier release hold no lock.
        Job job;
        job.directory = runtime->path(id);
        const Result<Fd> root = connect_root(job);
        if (root || (root.error().code() != ENOENT && root.error().code() != ECONNREFUSED))
            continue;
        if (flock(runtime->fd(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return; // a daemon is starting: the next one sweeps
        remove_job_directory(*runtime, id);
        flock(runtime->fd(), LOCK_UN);
    }
}

Result<Variables> start_job(pid_t launcher, const Supervision &by)
{
    const std::string daemon = cli::library("cryo/mpi-daemon");
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    const Fd answer(ends[0]);
    Fd write(ends[1]);
    std::vector<std::string> words = {daemon, "--root", std::to_string(launcher)};
    if (by.report >= 0)
        words.insert(words.end(), {"--supervisor", std::to_string(by.report)});
    if (!by.series.empty())
        words.insert(words.end(), {"--series", by.series});
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str())); // NOLINT: posix_spawn's type
    arguments.push_back(nullptr);
    std::vector<char *> environment; // without what would load libraries into the daemon
    for (char **one = environ; *one != nullptr; one++) {
        if (strncmp(*one, "LD_PRELOAD=", 11) != 0)
            environment.push_back(*one);
    }
    char outside[] = "CRYO_OUTSIDE=1";
    environment.push_back(outside);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write.get(), STDOUT_FILENO);
    if (by.report >= 0) // to its own number: it stays open in the daemon
        posix_spawn_file_actions_adddup2(&actions, by.report, by.report);
    pid_t child = 0;
    const int error = posix_spawn(&child, daemon.c_str(), &actions, nullptr, arguments.data(),
                                  environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return Error::from_errno(daemon, error)
            .within("Cryo's part for MPI jobs is not installed (the package cryo-mpi)");
    write.reset();
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = read(answer.get(), bytes, sizeof(bytes))) > 0;)
        text.append(bytes, static_cast<size_t>(n));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return Error(ECHILD, fmt::format("{}: the job's daemon did not start", daemon));
    Variables variables;
    for (const std::string &line : split(text, '\n')) {
        const size_t equals = line.find('=');
        if (equals != std::string::npos)
            variables.emplace(line.substr(0, equals), line.substr(equals + 1));
    }
    return variables;
}

Result<Fd> connect_root(const Job &job)
{
    Result<Fd> fd = connect_path(job.root_socket());
    if (!fd)
        return Error(fd.error().code(),
                     fmt::format("{}; the job's first daemon is not on this node, or has ended",
                                 fd.error().text()));
    return fd;
}

Result<Fd> connect_path(const std::string &path)
{
    const Result<sockaddr_un> address = address_of(path);
    if (!address)
        return address.error();
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd)
        return Error::from_errno("socket", errno);
    // A stopped listener must not block this process, neither here nor while sending.
    const timeval patience = {10, 0};
    setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (connect(fd.get(), reinterpret_cast<const sockaddr *>(&*address), sizeof(*address)) != 0)
        return errno == EAGAIN ? Error(ETIMEDOUT, path + ": somebody listens, and takes no calls")
                               : Error::from_errno(path, errno);
    // The directory's owner must listen: the job's user, which is our own unless root looks at it.
    struct stat directory = {};
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (stat(std::filesystem::path(path).parent_path().c_str(), &directory) != 0 ||
        getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != directory.st_uid || (geteuid() != 0 && peer.uid != geteuid()))
        return Error(EACCES, fmt::format("{}: somebody else listens there", path));
    return fd;
}

Result<Fd> listen_at(const std::string &path)
{
    const Result<sockaddr_un> address = address_of(path);
    if (!address)
        return address.error();
    Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd)
        return Error::from_errno("socket", errno);
    if (bind(fd.get(), reinterpret_cast<const sockaddr *>(&*address), sizeof(*address)) != 0 ||
        listen(fd.get(), 128) != 0)
        return Error::from_errno(path, errno);
    return fd;
}

} // namespace cryo::coord
