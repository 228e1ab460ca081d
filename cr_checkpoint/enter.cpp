// SPDX-License-Identifier: Apache-2.0
#include "enter.hpp"

#include "base/owner_teller.hpp"
#include "look/proc.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using cryo::Error;
using cryo::Fd;
using cryo::Result;
using cryo::capture::Proc;
using cryo::image::Scope;

// Also true if it may not be seen: then there is nothing that we could do.
bool is_ours(const Proc &theirs, const char *space)
{
    Result<std::string> their = theirs.link(space);
    Result<std::string> our = Proc(getpid()).link(space);
    return !their || !our || *their == *our;
}

// A container has its own files: the paths that the caller gave would name other files there.
bool has_our_files(pid_t pid)
{
    struct stat our, their;
    const std::string root = fmt::format("/proc/{}/{}", pid, "root");
    return stat("/", &our) == 0 && stat(root.c_str(), &their) == 0 && our.st_dev == their.st_dev &&
           our.st_ino == their.st_ino;
}

// The id in its own namespace: the last of a list that begins with the outermost one.
pid_t inner_id(const Proc &proc, Scope scope)
{
    const Result<std::string> status = proc.read("status");
    if (!status)
        return 0;
    const char *name = scope == Scope::group     ? "NSpgid"
                       : scope == Scope::session ? "NSsid"
                                                 : "NSpid";
    std::string_view ids = cryo::capture::field(*status, name);
    uint64_t id = 0;
    while (!ids.empty())
        id = cryo::capture::take_number(ids);
    return static_cast<pid_t>(id);
}

// A process that enters a user namespace has all capabilities there, and needs none.
bool give_up_capabilities()
{
    if (geteuid() == 0)
        return true;
    __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2] = {};
    // While we had them, our own /proc files belonged to root.
    return syscall(SYS_capset, &head, none) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

} // namespace

Result<std::optional<int>> enter_namespaces(pid_t &id, Scope scope, Fd &teller)
{
    const Proc proc(id);
    if (is_ours(proc, "ns/pid") || !has_our_files(id))
        return std::optional<int>();
    const Fd target(static_cast<int>(syscall(SYS_pidfd_open, id, 0)));
    const pid_t inner = inner_id(proc, scope);
    if (!target || inner == 0)
        return std::optional<int>();
    std::error_code none;
    const std::string place = std::filesystem::current_path(none).string();
    const int user = is_ours(proc, "ns/user") ? 0 : CLONE_NEWUSER;
    const int ipc = is_ours(proc, "ns/ipc") ? 0 : CLONE_NEWIPC;
    if (user != 0) {
        Result<Fd> started = cryo::start_owner_teller();
        if (!started)
            return started.error();
        teller = std::move(*started);
    }
    if (setns(target.get(), user | ipc | CLONE_NEWPID | CLONE_NEWNS) != 0)
        return Error::from_errno(fmt::format("process {} is in another pid namespace, which "
                                             "cannot be entered; its own user or root can",
                                             id),
                                 errno);
    if (chdir(place.c_str()) != 0)
        return Error::from_errno(place, errno);
    const pid_t child = fork();
    if (child < 0)
        return Error::from_errno("fork", errno);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!give_up_capabilities())
            return Error::from_errno("giving up capabilities", errno);
        id = inner;
        return std::optional<int>();
    }
    teller.reset();
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return Error::from_errno("waiting for the process inside", errno);
    }
    return std::optional<int>(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
