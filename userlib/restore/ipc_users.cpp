// SPDX-License-Identifier: Apache-2.0
#include "restore/ipc_users.hpp"

#include "base/contents.hpp"
#include "look/former_holders.hpp"

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace cryo::restore {

using image::Ipc;
using image::IpcKind;

namespace {

struct User {
    pid_t pid = 0; // 0: unknown
    std::string how;
};

pid_t number(const std::string &name)
{
    pid_t found = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), found);
    return error == std::errc() && end == name.data() + name.size() ? found : 0;
}

// Ids belong to an IPC namespace; in another one they name other objects.
bool is_in_our_namespace(pid_t pid)
{
    std::error_code error;
    const auto ours = std::filesystem::read_symlink("/proc/self/ns/ipc", error);
    const auto theirs = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/ipc", pid), error);
    return !error && ours == theirs;
}

// The first other process in our namespace for which `f` is true; 0: none.
pid_t find_process(const std::function<bool(pid_t)> &f)
{
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc", error)) {
        const pid_t pid = number(entry.path().filename());
        if (pid != 0 && pid != getpid() && f(pid) && is_in_our_namespace(pid))
            return pid;
    }
    return 0;
}

bool has_attached(pid_t pid, int id)
{
    std::ifstream maps(fmt::format("/proc/{}/maps", pid));
    for (std::string line; std::getline(maps, line);) {
        if (line.find("/SYSV") == std::string::npos)
            continue;
        std::istringstream words(line);
        std::string range, rights, offset, device;
        long inode = -1;
        words >> range >> rights >> offset >> device >> inode;
        if (inode == id)
            return true;
    }
    return false;
}

// Whether a thread of the process is in a system call on this object.
bool waits_for(pid_t pid, const Ipc &ipc)
{
    std::error_code error;
    for (const auto &task :
         std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error)) {
        std::ifstream file(task.path() / "syscall");
        long call = -1;
        std::string first;
        file >> call >> first;
        const bool queue = call == SYS_msgsnd || call == SYS_msgrcv;
        const bool set = call == SYS_semop || call == SYS_semtimedop;
        if ((ipc.kind == IpcKind::queue ? queue : set) && !first.empty() &&
            static_cast<int>(std::stoull(first, nullptr, 16)) == ipc.id)
            return true;
    }
    return false;
}

// Whether the process with this id is the one that had it then. Both
// times are known to the second only; an id is not reused that soon.
bool lives_since(pid_t pid, time_t then)
{
    const Result<std::string> stat = contents(fmt::format("/proc/{}/stat", pid));
    const size_t name_end = stat ? stat->rfind(')') : std::string::npos;
    if (pid <= 0 || pid == getpid() || then == 0 || name_end == std::string::npos)
        return false;
    std::istringstream words(stat->substr(name_end + 1));
    std::string word;
    words >> word;
    if (word == "Z" || word == "X")
        return false;
    constexpr int start_time = 19; // counted from the state
    for (int i = 0; i < start_time; i++)
        words >> word;
    const auto started = static_cast<time_t>(std::stoull(word)) / sysconf(_SC_CLK_TCK);
    timespec real, boot;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    constexpr time_t inexact = 2;
    return real.tv_sec - boot.tv_sec + started <= then + inexact;
}

std::optional<User> user_of_segment(const Ipc &ipc)
{
    shmid_ds status = {};
    if (shmctl(ipc.id, IPC_STAT, &status) != 0 || status.shm_nattch == 0)
        return {};
    return User{find_process([&](pid_t pid) { return has_attached(pid, ipc.id); }),
                "has it attached"};
}

std::optional<User> user_of_semaphores(const Ipc &ipc)
{
    semid_ds status = {};
    if (semctl(ipc.id, 0, IPC_STAT, &status) != 0)
        return {};
    for (int i = 0; i < static_cast<int>(status.sem_nsems); i++) {
        const pid_t last = semctl(ipc.id, i, GETPID);
        if (lives_since(last, std::max(status.sem_otime, status.sem_ctime)))
            return User{last, "has changed it"};
        if (semctl(ipc.id, i, GETNCNT) > 0 || semctl(ipc.id, i, GETZCNT) > 0)
            return User{find_process([&](pid_t pid) { return waits_for(pid, ipc); }),
                        "waits for it"};
    }
    return {};
}

std::optional<User> user_of_queue(const Ipc &ipc)
{
    msqid_ds status = {};
    if (msgctl(ipc.id, IPC_STAT, &status) != 0)
        return {};
    if (lives_since(status.msg_lspid, status.msg_stime))
        return User{status.msg_lspid, "has sent to it"};
    if (lives_since(status.msg_lrpid, status.msg_rtime))
        return User{status.msg_lrpid, "has received from it"};
    if (const pid_t pid = find_process([&](pid_t one) { return waits_for(one, ipc); }); pid != 0)
        return User{pid, "waits for it"};
    return {};
}

} // namespace

std::string name_of(const Ipc &ipc)
{
    const char *kind = ipc.kind == IpcKind::segment      ? "shared memory segment"
                       : ipc.kind == IpcKind::semaphores ? "semaphore set"
                                                         : "message queue";
    const std::string key = ipc.key != 0 ? fmt::format(" (key {:#x})", ipc.key) : "";
    return fmt::format("System V {} {}{}", kind, ipc.id, key);
}

Result<void> await_unused(const Ipc &ipc, int patience_ms)
{
    for (int waited_ms = 0;; waited_ms += release_poll_ms) {
        const std::optional<User> user = ipc.kind == IpcKind::segment      ? user_of_segment(ipc)
                                         : ipc.kind == IpcKind::semaphores ? user_of_semaphores(ipc)
                                                                           : user_of_queue(ipc);
        if (!user)
            return {};
        if ((user->pid != 0 && !is_passing(user->pid)) || waited_ms >= patience_ms)
            return Error(
                EBUSY,
                fmt::format("{} is in use: {} {}; its contents would change while they are in use. "
                            "End that process first, or use --pidns, which makes a separate copy",
                            name_of(ipc),
                            user->pid != 0 ? fmt::format("process {}", user->pid)
                                           : std::string("somebody"),
                            user->how));
        const timespec pause = {0, release_poll_ms * 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

} // namespace cryo::restore
