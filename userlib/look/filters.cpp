// SPDX-License-Identifier: Apache-2.0
#include "look/filters.hpp"

#include "look/agent_calls.hpp"
#include "look/proc.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {

namespace {

// Every call fails from now on without being made, but for the end of the process. Of several
// filters the strictest decides: one that ends the process does so even now.
bool forbid_all()
{
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {sizeof(rules) / sizeof(rules[0]), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

constexpr int not_tried = 2; // exit code

// Filters that decide by a call's arguments see zeros.
[[noreturn]] void try_all(const AgentCall *volatile *tried)
{
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (!forbid_all())
        _exit(not_tried);
    for (const AgentCall &one : agent_calls()) {
        if (one.number == SYS_exit_group) // made below
            continue;
        *tried = &one;
        syscall(one.number, 0, 0, 0, 0, 0, 0);
    }
    *tried = nullptr;
    _exit(0);
}

std::string find_obstacle()
{
    void *const shared =
        mmap(nullptr, sizeof(void *), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return fmt::format("no memory to try out the seccomp filter: {}", strerror(errno));
    auto *const tried = static_cast<const AgentCall *volatile *>(shared);
    const pid_t child = fork();
    if (child == 0)
        try_all(tried);
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    const AgentCall *const last = *tried;
    munmap(shared, sizeof(void *));
    if (child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && last == nullptr)
        return {};
    if (child > 0 && WIFSIGNALED(status) && last != nullptr)
        return fmt::format("the seccomp filter here ends a process that calls {}(2), as Cryo does "
                           "in a program that it saves: let the filter allow that, or answer with "
                           "an error (systemd: SystemCallErrorNumber=EPERM)",
                           last->name);
    return "the seccomp filter here could not be tried out, and might end a program for what Cryo "
           "does in it";
}

} // namespace

unsigned count_filters(std::string_view status)
{
    std::string_view count = field(status, "Seccomp_filters");
    return static_cast<unsigned>(take_number(count));
}

OwnFilters own_filters()
{
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) <= 0)
        return {};
    const Result<std::string> status = Proc(getpid()).read("status");
    OwnFilters own;
    own.count = status ? count_filters(*status) : 0;
    own.obstacle = own.count != 0 ? find_obstacle()
                                  : "there is a seccomp filter here, and the kernel does not tell "
                                    "how many there are";
    return own;
}

std::string note_own_filters()
{
    unsetenv(filters_variable);
    OwnFilters own = own_filters();
    if (own.count != 0 && own.obstacle.empty())
        setenv(filters_variable, std::to_string(own.count).c_str(), 1);
    return std::move(own.obstacle);
}

} // namespace cryo::capture
