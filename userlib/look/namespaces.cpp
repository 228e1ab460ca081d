// SPDX-License-Identifier: Apache-2.0
#include "look/namespaces.hpp"

#include <fmt/format.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

constexpr pid_t init = 1;

// The number of a namespace; 0: it is not known.
ino_t number_of(const Proc &proc, const char *name)
{
    struct stat status;
    return stat(proc.path(fmt::format("ns/{}", name)).c_str(), &status) == 0 ? status.st_ino : 0;
}

pid_t parent_of(const Proc &proc)
{
    const Result<std::string> status = proc.read("status");
    std::string_view parent = status ? field(*status, "PPid") : std::string_view();
    return static_cast<pid_t>(take_number(parent));
}

} // namespace

std::optional<std::string> own_namespace(const Proc &proc)
{
    constexpr const char *kinds[][2] = {
        {"net", "a network"}, {"uts", "a host name (UTS)"}, {"ipc", "an IPC"},
        {"user", "a user"},   {"cgroup", "a cgroup"},       {"time", "a time"},
    };
    const Proc self(getpid());
    const pid_t parent = parent_of(proc);
    for (const auto &[name, what] : kinds) {
        const ino_t own = number_of(proc, name);
        if (own == 0 || own == number_of(self, name) || parent <= init)
            continue;
        const ino_t parents = number_of(Proc(parent), name);
        if (parents != 0 && own != parents)
            return fmt::format("{} namespace of its own", what);
    }
    const ino_t pids = number_of(proc, "pid_for_children");
    const ino_t times = number_of(proc, "time_for_children");
    const bool lives = number_of(proc, "net") != 0; // one that ends has no namespaces any more
    // One that nobody is in yet has no number.
    if (lives && pids != number_of(proc, "pid"))
        return "a pid namespace of its own for its children";
    if (lives && times != 0 && times != number_of(proc, "time"))
        return "a time namespace of its own for its children";
    return {};
}

std::optional<std::string> own_table(pid_t pid, int tid)
{
    // A thread that ends gives up its tables a moment before it is gone.
    constexpr int looks = 5;
    constexpr timespec pause = {0, 10'000'000};
    const auto differs = [&](int what) {
        for (int i = 0; i < looks; i++) {
            if (syscall(SYS_kcmp, pid, tid, what, 0, 0) <= 0)
                return false;
            nanosleep(&pause, nullptr);
        }
        return true;
    };
    if (tid == pid)
        return {};
    if (differs(KCMP_FILES))
        return "descriptors";
    if (differs(KCMP_FS))
        return "a working directory, root and umask";
    return {};
}

} // namespace cryo::capture
