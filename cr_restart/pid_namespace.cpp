// SPDX-License-Identifier: Apache-2.0
#include "pid_namespace.hpp"

#include "base/passing.hpp"
#include "cli/error_json.hpp"
#include "restore/choosing_ids.hpp"
#include "restore/ending_signals.hpp"
#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <fstream>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <net/if.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using cryo::Error;
using cryo::Fd;
using cryo::Result;
using cryo::backend::Alive;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char *variable = "CRYO_RESTART_INSIDE"; // the descriptor of our socket
constexpr size_t longest_message = 128 << 10;

// A message is one packet, so that no end has to be marked.
bool send_message(int to, const Json &message, int descriptor = -1)
{
    const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
    const std::span<const int> with(&descriptor, descriptor >= 0 ? 1 : 0);
    return cryo::send_with(to, text, with) == static_cast<ssize_t>(text.size());
}

// Nothing when the other end is gone.
std::optional<Json> receive_message(int from, Fd *descriptor = nullptr)
{
    std::vector<char> text(longest_message);
    std::vector<Fd> fds;
    const ssize_t n = cryo::receive_with(from, text, fds);
    if (n <= 0)
        return {};
    if (descriptor != nullptr && !fds.empty())
        *descriptor = std::move(fds.front());
    Json message = Json::parse(text.data(), text.data() + n, nullptr, false);
    return message.is_discarded() ? std::nullopt : std::optional<Json>(std::move(message));
}

Json failure_message(const Error &error)
{
    return {{"failure", cryo::cli::error_json(error)}};
}

bool write_file(const char *path, const std::string &text)
{
    const Fd file(open(path, O_WRONLY | O_CLOEXEC));
    return file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Of the capabilities that the first process has in a user namespace, it needs
// only this one, and keeps it over execve, which the process that is being
// restored does, too. The plan of a restart removes what the program did not have.
bool keep_choosing_ids(uint64_t bounding)
{
    // In a new user namespace this set is full again.
    for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++) {
        if ((bounding >> i & 1) == 0 && prctl(PR_CAPBSET_DROP, i) != 0)
            return false;
    }
    __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2] = {};
    constexpr uint32_t mask = 1U << (CAP_CHECKPOINT_RESTORE % 32);
    auto &set = sets[CAP_CHECKPOINT_RESTORE / 32];
    set.effective = set.permitted = set.inheritable = mask;
    return syscall(SYS_capset, &head, sets) == 0 &&
           prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_CHECKPOINT_RESTORE, 0, 0) == 0;
}

// The option that is requested, and the advice for doing without it.
struct Purpose {
    const char *option, *without;
};

constexpr Purpose with_old_ids = {
    "--pidns",
    "old ids take CAP_CHECKPOINT_RESTORE (of a container: --cap-add=CHECKPOINT_RESTORE) or "
    "the kernel module, --no-restore-pid does without them"};
constexpr Purpose without_privilege = {
    "choosing ids needs a privilege here, so it was tried in a pid namespace",
    with_old_ids.without};
constexpr Purpose for_rehearsal = {"--rehearse", "do without it"};

Error refused(const Purpose &purpose, const char *what, const char *why)
{
    const int error = errno;
    return {error, fmt::format("{}: {}: {}: {}; {}", purpose.option, what, strerror(error), why,
                               purpose.without)};
}

struct User {
    uid_t uid;
    gid_t gid;
    uint64_t bounding = 0;
};

uint64_t bounding_set()
{
    uint64_t set = 0;
    for (int i = 0; i < 64; i++)
        set |= static_cast<uint64_t>(prctl(PR_CAPBSET_READ, i) == 1) << i;
    return set;
}

// For a rehearsal: a network in which every address can be bound and none is in use,
// terminals with numbers of their own; and if memory runs out, the rehearsal is killed first.
bool keep_apart()
{
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq loopback = {};
    strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    if (!socket || ioctl(socket.get(), SIOCSIFFLAGS, &loopback) != 0)
        return false;
    // Not every kernel has them; a socket that needs one fails with an error.
    write_file("/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    write_file("/proc/sys/net/ipv4/ip_nonlocal_bind", "1");
    write_file("/proc/sys/net/ipv6/ip_nonlocal_bind", "1");
    write_file("/proc/sys/net/ipv4/ping_group_range", fmt::format("{0} {0}", getegid()));
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666");
    return write_file("/proc/self/oom_score_adj", "1000");
}

// Runs in the first process, which becomes cr_restart again; returns
// only on failure. `mapped`: its user, if it has a user namespace.
Error prepare(const std::optional<User> &mapped, const Purpose &purpose, bool rehearse, int socket,
              char **argv)
{
    if (mapped &&
        !(write_file("/proc/self/setgroups", "deny") &&
          write_file("/proc/self/uid_map", fmt::format("{} {} 1", mapped->uid, mapped->uid)) &&
          write_file("/proc/self/gid_map", fmt::format("{} {} 1", mapped->gid, mapped->gid))))
        return refused(purpose, "mapping the user into the new user namespace",
                       "a security module may forbid it");
    if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return refused(purpose, "separating its mounts from those outside",
                       "a security module may forbid it");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
        return refused(purpose, "mounting a /proc of its own",
                       "a container whose /proc is partly hidden does not allow it");
    if (rehearse && !keep_apart())
        return refused(purpose, "separating a rehearsal from the processes outside",
                       "a security module may forbid it");
    if (mapped && mapped->uid != 0 && !keep_choosing_ids(mapped->bounding))
        return refused(purpose, "keeping the right to choose ids",
                       "the bounding set of capabilities lacks it");
    fcntl(socket, F_SETFD, 0);
    setenv(variable, std::to_string(socket).c_str(), 1);
    execv("/proc/self/exe", argv);
    return refused(purpose, "starting cr_restart in it", "its program file may be gone");
}

long make_first(uint64_t flags)
{
    clone_args args = {};
    args.flags = flags;
    args.exit_signal = SIGCHLD;
    return cryo::sys::call(SYS_clone3, &args, sizeof(args));
}

// The process's id in our namespace.
pid_t pid_behind(int pidfd)
{
    std::ifstream info(fmt::format("/proc/self/fdinfo/{}", pidfd));
    for (std::string line; std::getline(info, line);) {
        if (line.starts_with("Pid:"))
            return static_cast<pid_t>(strtol(line.c_str() + 4, nullptr, 10));
    }
    return -1;
}

int wait_status_of(const siginfo_t &info)
{
    if (info.si_code == CLD_EXITED)
        return info.si_status << 8;
    return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

} // namespace

Result<Outside> Outside::make(char **argv, bool rehearse, bool by_default)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return Error::from_errno("socketpair", errno);
    Fd ours(ends[0]);
    const Fd theirs(ends[1]);
    // Ids of System V objects can be chosen there, too.
    const uint64_t spaces =
        CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | (rehearse ? CLONE_NEWNET : 0);
    const Purpose &purpose = rehearse     ? for_rehearsal
                             : by_default ? without_privilege
                                          : with_old_ids;
    const User user = {geteuid(), getegid(), bounding_set()};
    std::optional<User> mapped;
    long pid = make_first(spaces);
    if (pid == -EPERM) {
        mapped = user;
        pid = make_first(spaces | CLONE_NEWUSER);
    }
    if (pid == 0) {
        // The C library's idea of who we are is wrong until we have executed ourselves.
        const Error error = prepare(mapped, purpose, rehearse, theirs.get(), argv);
        send_message(theirs.get(), failure_message(error));
        _exit(127);
    }
    if (pid == -ENOSYS)
        return Error(
            ENOSYS,
            fmt::format("{}: {}; {}, or use another seccomp profile",
                        rehearse ? for_rehearsal.option : "the saved ids cannot be assigned",
                        cryo::restore::clone3_denied,
                        rehearse ? for_rehearsal.without : "--no-restore-pid gives new ones"));
    if (pid < 0)
        return Error(static_cast<int>(-pid),
                     fmt::format("{}: {} namespaces cannot be made here ({}): the sysctls "
                                 "user.max_user_namespaces and kernel.unprivileged_userns_clone, "
                                 "a container or a security module forbid it; {}",
                                 purpose.option, mapped ? "user and pid" : "pid",
                                 strerror(static_cast<int>(-pid)), purpose.without));
    return Outside(std::move(ours), static_cast<pid_t>(pid));
}

// The first process has ended, and with it all others; or it ends when the socket is closed.
Error Outside::lost()
{
    int status = 0;
    socket_.reset();
    while (waitpid(first_, &status, 0) < 0 && errno == EINTR)
        ;
    return {ECHILD, fmt::format("the first process of the pid namespace ({}) has ended with "
                                "status {:#x}, and with it all others",
                                first_, status)};
}

Result<Alive> Outside::await_alive(const Listener &listener)
{
    const cryo::restore::EndingSignals ending;
    bool may_live = false;
    std::vector<std::string> notices;
    for (;;) {
        Fd process; // or a file
        if (!may_live)
            ending.await(socket_.get());
        const std::optional<Json> message = receive_message(socket_.get(), &process);
        if (!message) {
            ending.release();
            return lost();
        }
        const auto tell = [&](const char *what, const std::function<void(std::string_view)> &whom) {
            if (whom && message->contains(what))
                whom(message->at(what).get<std::string>());
        };
        tell("remark", listener.remark);
        tell("phase", listener.phase);
        tell("notice", [&](std::string_view text) { notices.emplace_back(text); });
        may_live |= message->contains("begins");
        if (message->contains("progress")) {
            const uint64_t done = message->at("progress").at(0);
            const uint64_t total = message->at("progress").at(1);
            if (listener.progress)
                listener.progress(done, total);
            if (done < total)
                ending.let_through();
        }
        if (message->contains("whose")) {
            struct stat status = {};
            Json answer = Json::object();
            if (process && fstat(process.get(), &status) == 0)
                answer["owner"] = status.st_uid;
            send_message(socket_.get(), answer);
        }
        if (message->contains("failure")) {
            Error error = cryo::cli::error_from(message->at("failure"));
            ending.release();
            lost();
            return error;
        }
        if (!message->contains("alive"))
            continue;
        const Json &said = message->at("alive");
        Alive alive;
        alive.pid = pid_behind(process.get());
        alive.processes = said.at("processes");
        alive.bytes = said.at("bytes");
        alive.cut_realtime = said.at("cut");
        alive.notices = std::move(notices);
        backend_ = said.at("backend");
        inner_pid_ = said.at("pid");
        return alive;
    }
}

Result<Alive> Outside::await_rehearsed(const Listener &listener)
{
    Result<Alive> done = await_alive(listener);
    if (done)
        lost(); // all others end with the first process
    return done;
}

void Outside::let_stay() const
{
    send_message(socket_.get(), {{"stay", true}});
}

Result<End> Outside::await_end()
{
    const std::optional<Json> message = receive_message(socket_.get());
    if (!message || !message->contains("end"))
        return lost();
    const Json &said = message->at("end");
    const End end = {said.at("status"), said.at("callback")};
    socket_.reset(); // the first process may reap it now
    return end;
}

std::optional<Inside> Inside::find()
{
    const char *given = cryo::sys::own_variable(variable);
    if (given == nullptr)
        return {};
    const int fd = atoi(given);
    unsetenv(variable);
    if (getpid() != 1 || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return {};
    prctl(PR_SET_NAME, program_invocation_short_name); // not that of /proc/self/exe
    // Until signals are forwarded, this process ends with the one that has started it.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return Inside(Fd(fd));
}

Listener Inside::listener() const
{
    const int to = socket_.get();
    return {
        [to](std::string_view text) {
            send_message(to, {{"remark", text}});
        },
        [to](std::string_view text) {
            send_message(to, {{"phase", text}});
        },
        [to](uint64_t done, uint64_t total) {
            send_message(to, {{"progress", Json::array({done, total})}});
        },
        [to] {
            send_message(to, {{"begins", true}});
        },
    };
}

cryo::Trust::Ask Inside::asker() const
{
    return [to = socket_.get()](int fd) -> std::optional<uid_t> {
        if (!send_message(to, {{"whose", true}}, fd))
            return {};
        const std::optional<Json> answer = receive_message(to);
        if (!answer || !answer->contains("owner"))
            return {};
        return answer->at("owner").get<uid_t>();
    };
}

void Inside::fail(const Error &error) const
{
    send_message(socket_.get(), failure_message(error));
}

void Inside::tell(const Alive &alive, std::string_view backend) const
{
    // One by one: there may be thousands, and a message longer than a packet is lost.
    for (const std::string &text : alive.notices)
        send_message(socket_.get(), {{"notice", text}});
    const Fd process(static_cast<int>(syscall(SYS_pidfd_open, alive.pid, 0)));
    send_message(socket_.get(),
                 {{"alive",
                   {{"pid", alive.pid},
                    {"processes", alive.processes},
                    {"bytes", alive.bytes},
                    {"cut", alive.cut_realtime},
                    {"backend", backend}}}},
                 process.get());
}

void Inside::stay(const Alive &alive, std::string_view backend)
{
    tell(alive, backend);
    if (!receive_message(socket_.get()))
        _exit(127); // the outer process is gone: all end with us
    prctl(PR_SET_PDEATHSIG, 0);
    // This process must not keep the end of any pipe open.
    const Fd empty(open("/dev/null", O_RDWR | O_CLOEXEC));
    for (int fd = 0; fd <= 2; fd++)
        dup2(empty.get(), fd);
    const int low = std::min(socket_.get(), alive.status.get());
    const int high = std::max(socket_.get(), alive.status.get());
    for (const auto &[from, to] :
         {std::pair(3, low - 1), {low + 1, high - 1}, {high + 1, INT_MAX}}) {
        if (from <= to)
            close_range(static_cast<unsigned>(from), static_cast<unsigned>(to), 0);
    }
    if (chdir("/") != 0)
        _exit(127);
    for (;;) {
        siginfo_t info = {};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) != 0) {
            // One that has entered, such as cr_checkpoint, is not our child and would end with us.
            const timespec pause = {0, 5'000'000};
            if (errno == ECHILD && kill(-1, 0) != 0 && errno == ESRCH)
                _exit(0);
            nanosleep(&pause, nullptr);
            continue;
        }
        // The root's id must stay in use until the forwarder of signals knows of the root's end.
        if (info.si_pid == alive.pid && socket_) {
            const Json end = {{"status", wait_status_of(info)}, {"callback", alive.failure()}};
            if (send_message(socket_.get(), {{"end", end}}))
                receive_message(socket_.get());
            socket_.reset();
        }
        waitpid(info.si_pid, nullptr, __WALL);
    }
}
