// SPDX-License-Identifier: Apache-2.0
// mpi-daemon: the daemon of one node of an MPI job. Started by cr_run and ompi-restart (the first
// one, --root, which prints what belongs into mpirun's environment) and by the first rank of every
// other node (--node); never by a person.
#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/number.hpp"
#include "coord/coordinator.hpp"
#include "coord/leash.hpp"
#include "coord/left_memory.hpp"
#include "coord/place.hpp"
#include "coord/tls.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace {

using cryo::Error;
using cryo::Fd;
using cryo::Result;
using cryo::coord::Channel;
using cryo::coord::Coordinator;
using cryo::coord::Daemon;
using cryo::coord::Job;
using cryo::coord::Loop;
using cryo::coord::Message;
using cryo::coord::Speaker;
using cryo::coord::Type;

constexpr int idle_ms = 60'000; // then a daemon without ranks ends

std::string name_of_node()
{
    char name[128];
    return cryo::coord::node_name(environ, name, sizeof(name)) ? name : "node";
}

// Replaces the terminal later. Opened early, while a failure can still be reported.
Result<Fd> open_null()
{
    for (;;) {
        Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
        if (null)
            return Result<Fd>(std::move(null));
        if (errno != EINTR)
            return Error::from_errno("/dev/null", errno);
    }
}

// A pipe that stayed open would hold its reader for ever: what does not come about at once is tried
// again, and a descriptor that cannot be replaced is given up.
void replace(int descriptor, const Fd &by)
{
    if (dup2(by.get(), descriptor) < 0 && dup2(by.get(), descriptor) < 0)
        close(descriptor);
}

// The process that started us continues when the sockets listen. Nothing
// of it is kept: no terminal, no pipe whose reader waits for its end.
void to_background(const Fd &null)
{
    if (fork() != 0)
        _exit(0);
    // Not setsid(): with a session comes a scheduling group (autogroup), and a daemon in another
    // one than its ranks was seen to wait for seconds for ranks that do little but yield.
    setpgid(0, 0);
    for (int signal : {SIGHUP, SIGINT, SIGPIPE, SIGXFSZ, SIGTSTP, SIGTTIN, SIGTTOU})
        ::signal(signal, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL); // the user may have it ignored: then no child's end could be read
    const char *log = cryo::sys::own_variable("CRYO_DAEMON_LOG");
    const Fd to(log != nullptr ? open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1);
    replace(STDIN_FILENO, null);
    replace(STDOUT_FILENO, null);
    replace(STDERR_FILENO, to ? to : null);
    if (chdir("/") != 0)
        cryo::print(stderr, "mpi-daemon: /: {}\n", strerror(errno));
}

Result<void> root(pid_t launcher, const std::string &series, Fd supervisor)
{
    const Result<Fd> null = open_null();
    if (!null)
        return null.error();
    Job job;
    job.launcher = launcher;
    job.series = series;
    job.id = fmt::format("{}-{}", launcher, cryo::coord::random_hex(4));
    job.secret = cryo::coord::random_hex(32);
    char usual[PATH_MAX];
    if (!cryo::coord::runtime_directory(environ, usual, sizeof(usual)))
        return Error(ENAMETOOLONG, "CRYO_RUNTIME_DIR is too long");
    const Result<std::string> runtime = cryo::coord::make_runtime(usual);
    if (!runtime)
        return runtime.error();
    const bool is_other = *runtime != usual;
    const bool is_supervised = bool(supervisor);
    job.directory = fmt::format("{}/{}", *runtime, job.id);
    const std::string name = name_of_node();
    const Result<cryo::coord::Held> held =
        cryo::coord::hold_directories(*runtime, job.directory, name);
    if (!held)
        return held.error();
    cryo::coord::sweep_directories(*runtime);

    Loop loop;
    Coordinator coordinator(loop, job, name, std::move(supervisor));
    std::error_code ignored;
    if (Result<void> begun = coordinator.begin(); !begun) {
        std::filesystem::remove_all(job.directory, ignored);
        return begun;
    }
    job.port = coordinator.local().tcp().port;
    job.addresses = coordinator.local().tcp().addresses;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    cryo::print("{}={}\nCRYO_DAEMON={}\n", cryo::coord::job_variable, job.text(), self.string());
    if (is_other)
        cryo::print("CRYO_RUNTIME_DIR={}\n", *runtime);
    if (is_supervised)
        cryo::print("{}=1\n", cryo::coord::fenced_variable);
    fflush(stdout);
    to_background(*null);
    loop.run();
    // Else a later daemon removes both.
    if (cryo::coord::sweep_left_memory(cryo::coord::common_memory, job.id))
        std::filesystem::remove_all(job.directory, ignored);
    if (is_other)
        std::filesystem::remove(*runtime, ignored);
    return {};
}

// The first daemon may not listen yet; flooded by strangers, it may close a legitimate connection.
constexpr std::chrono::seconds longest_join{10};
constexpr std::chrono::milliseconds first_wait{10};
constexpr std::chrono::milliseconds longest_wait{500};

// One attempt. Once the first daemon has accepted it, this daemon executes its commands.
bool try_to_join(Loop &loop, const Job &job, Fd socket, Daemon &daemon,
                 std::shared_ptr<Channel> &up)
{
    const std::string who = cryo::coord::join_prefix + daemon.name();
    const auto joined = std::make_shared<bool>(false);
    up = Channel::make(
        loop, std::move(socket),
        std::make_unique<cryo::coord::Tls>(who, cryo::coord::derived_key(job.secret, who)));
    Channel *at = up.get();
    up->on_end = [&loop] { loop.stop(); };
    up->on_secure = [at, &loop, &daemon, joined] {
        daemon.lease().ask();
        at->send(Message(Type::join,
                         {{"addresses", daemon.tcp().addresses}, {"port", daemon.tcp().port}}));
        at->on_message(Speaker::coordinator, [&loop, &daemon, joined](const Message &message) {
            if (std::exchange(*joined, true)) {
                daemon.command(message);
                return;
            }
            daemon.joined(message);
            loop.stop();
        });
    };
    const uint64_t limit =
        loop.after(std::chrono::milliseconds(longest_join).count(), [&loop] { loop.stop(); });
    loop.resume();
    loop.run();
    loop.call_off(limit);
    return *joined && up->open();
}

Result<void> join(Loop &loop, const Job &job, Daemon &daemon, std::shared_ptr<Channel> &up)
{
    const auto end = std::chrono::steady_clock::now() + longest_join;
    Error last(ECONNREFUSED, "the job's first daemon did not take this one");
    for (auto wait = first_wait;; wait = std::min(2 * wait, longest_wait)) {
        Result<Fd> socket = cryo::coord::connect_tcp(job.addresses, job.port);
        if (!socket) {
            last = socket.error();
            if (last.code() != ECONNREFUSED)
                return last;
        } else {
            // Our address on this connection is the one by which others reach us.
            const char *own = cryo::sys::own_variable("CRYO_LISTEN");
            const bool says = own != nullptr && *own != 0;
            if (daemon.tcp().port == 0) {
                const std::string here = cryo::coord::address_from(socket->get());
                Result<void> kept = daemon.keep_port(says ? own : here);
                if (!kept && says)
                    kept = daemon.keep_port(here); // another node's: the launcher passed it on
                if (!kept)
                    return kept.error();
            }
            if (try_to_join(loop, job, std::move(*socket), daemon, up))
                return {};
        }
        if (std::chrono::steady_clock::now() + wait > end)
            return last;
        std::this_thread::sleep_for(wait);
    }
}

// Without a daemon, ranks start one after the other: not
// each of them has to wait for what has failed a moment ago.
bool failed_lately(int lock)
{
    struct stat status = {};
    return fstat(lock, &status) == 0 && status.st_size > 0 &&
           time(nullptr) - status.st_mtime <= longest_join.count();
}

Result<void> node()
{
    const Result<Fd> null = open_null();
    if (!null)
        return null.error();
    Result<Job> job = cryo::coord::job_from(cryo::coord::own_variables());
    if (!job)
        return job.error();
    const std::string runtime = std::filesystem::path(job->directory).parent_path();
    const std::string name = name_of_node();
    const Result<cryo::coord::Held> held =
        cryo::coord::hold_directories(runtime, job->directory, name);
    if (!held)
        return held.error();
    // Of several ranks that start a daemon at once, one succeeds; the others wait until it listens.
    const std::string lock_name = fmt::format("{}/.{}.lock", job->directory, name);
    Fd lock(open(lock_name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock || flock(lock.get(), LOCK_EX) != 0)
        return Error::from_errno(lock_name, errno);
    const std::string socket_name = job->directory + "/" + name;
    if (std::filesystem::exists(socket_name)) {
        if (cryo::coord::connect_path(socket_name))
            return {};
        std::filesystem::remove(socket_name); // of a daemon that was killed
    }
    if (failed_lately(lock.get()))
        return Error(ECONNREFUSED, "the job's first daemon could not be reached a moment ago");

    Loop loop;
    std::shared_ptr<Channel> up;
    Daemon daemon(loop, *job, name, [&up](const Message &message) { up->send(message); });
    if (Result<void> joined = join(loop, *job, daemon, up); !joined) {
        static_cast<void>(pwrite(lock.get(), "failed\n", 7, 0) == 7); // else others try, too
        return joined.error();
    }
    static_cast<void>(ftruncate(lock.get(), 0) == 0);
    if (Result<void> listening = daemon.listen_to_daemons(); !listening)
        return listening;
    if (Result<void> listening = daemon.listen_to_ranks(); !listening)
        return listening;
    to_background(*null);
    lock.reset();
    if (Result<void> armed = daemon.lease().arm(); !armed)
        return armed; // no rank has come yet
    // Ranks that lose this daemon treat a checkpoint that is under way as abandoned.
    up->on_end = [&loop] { loop.stop(); };
    const std::function<void()> look = [&] {
        if (daemon.had_ranks() && !daemon.busy()) {
            up->send(Message(Type::leaving));
            loop.stop();
        }
    };
    loop.after(idle_ms, [&] {
        if (!daemon.had_ranks() && !daemon.busy()) {
            up->send(Message(Type::leaving));
            loop.stop();
        }
    });
    daemon.on_progress = look;
    loop.resume();
    loop.run();
    std::filesystem::remove(socket_name);
    std::filesystem::remove(lock_name);
    static_cast<void>(cryo::coord::sweep_left_memory(cryo::coord::common_memory, job->id));
    return {};
}

// The kernel's default of 1024 is for select(), which is not used here.
void raise_descriptors()
{
    rlimit limit = {};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

} // namespace

int main(int argc, char **argv)
{
    CLI::App app("The daemon of one node of an MPI job; cr_run starts it.", "mpi-daemon");
    pid_t launcher = 0;
    bool as_node = false;
    auto *mode = app.add_option_group("mode");
    mode->add_option("--root", launcher, "Be the first one, of the job of this launcher")
        ->transform(cryo::cli::above_zero());
    mode->add_flag("--node", as_node, "Be the one of this node, of the job that CRYO_JOB names");
    mode->require_option(1);
    int to_supervisor = -1;
    app.add_option("--supervisor", to_supervisor, "Tell this pipe how the job stands");
    std::string series;
    app.add_option("--series", series, "To which the job's snapshots belong, after any restart");
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    umask(077);
    raise_descriptors();
    // Inherited ones are closed: a launcher may wait for the end of a pipe that a rank has from it.
    Fd supervisor;
    if (to_supervisor > STDERR_FILENO) {
        constexpr int kept = STDERR_FILENO + 1;
        if (to_supervisor != kept)
            dup2(to_supervisor, kept);
        fcntl(kept, F_SETFD, FD_CLOEXEC);
        supervisor = Fd(kept);
    }
    close_range(STDERR_FILENO + (supervisor ? 2 : 1), ~0U, 0);
    const Result<void> done = as_node ? node() : root(launcher, series, std::move(supervisor));
    return done ? 0 : cryo::cli::fail("mpi-daemon", done.error());
}
