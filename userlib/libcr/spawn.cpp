// SPDX-License-Identifier: Apache-2.0
#include "libcr/spawn.hpp"

#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::libcr {

namespace {

// Finds the commands relative to this library: an installed tree may be moved, and a build tree has
// the same layout.
bool find_command(char (&path)[PATH_MAX], const char *name)
{
    const char *directory = sys::own_variable("CRYO_BINDIR");
    Dl_info self = {};
    int length = 0;
    if (directory != nullptr) {
        length = snprintf(path, sizeof(path), "%s/%s", directory, name);
    } else {
        char library[PATH_MAX];
        if (dladdr(reinterpret_cast<const void *>(&spawn), &self) == 0 ||
            realpath(self.dli_fname, library) == nullptr)
            return false;
        *strrchr(library, '/') = 0;
        length = snprintf(path, sizeof(path), "%s/" CRYO_BIN_FROM_LIB "/%s", library, name);
    }
    return length > 0 && static_cast<size_t>(length) < sizeof(path) && access(path, X_OK) == 0;
}

bool is_called(const char *variable, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

// The program's environment, without variables that load libraries into the command.
const char **command_environment()
{
    size_t count = 0;
    while (environ[count] != nullptr)
        count++;
    auto **copy = static_cast<const char **>(calloc(count + 2, sizeof(char *)));
    if (copy == nullptr)
        return nullptr;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_called(environ[i], "LD_PRELOAD") && !is_called(environ[i], "CRYO_REPORT_FD"))
            copy[kept++] = environ[i];
    }
    copy[kept] = "CRYO_REPORT_FD=3"; // the log's descriptor follows the image's
    return copy;
}

struct Work {
    const Spawn *what;
    const char *path;
    const char *const *argv;
    const char *const *envp;
    char *second_stack;
    long pid; // of the command
    long error;
};

constexpr size_t stack_size = 16384;

// Runs in the new process, in our memory until it executes the command: system calls only.
void execute(void *of)
{
    auto &work = *static_cast<Work *>(of);
    const Spawn &what = *work.what;
    constexpr int above = 64;
    constexpr int first = 3;
    long result;
    do {
        result = sys::call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
    } while (result >= 0 && result < first); // fills standard descriptors that are closed
    const int sources[] = {what.report, what.file < 0 ? static_cast<int>(result) : what.file,
                           what.log};
    long moved[3];
    for (int i = 0; i < 3 && !sys::failed(result); i++)
        result = moved[i] = sys::call(SYS_fcntl, sources[i], F_DUPFD, above);
    for (int i = 0; i < 3 && !sys::failed(result); i++)
        result = sys::call(SYS_dup3, moved[i], first + i, 0);
    if (!sys::failed(result)) {
        sys::call(SYS_close_range, first + 3, ~0U, 0);
        const uint64_t none = 0;
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof(none));
        result = sys::call(SYS_execve, work.path, work.argv, work.envp);
    }
    work.error = result;
    sys::call(SYS_exit_group, 127);
}

extern "C" long cryo_clone(unsigned long flags, void *stack_top, void (*fn)(void *), void *arg);

// Runs in an intermediate process that ends at once, so that no parent has to wait for the command.
void make_orphan(void *of)
{
    auto &work = *static_cast<Work *>(of);
    work.pid = cryo_clone(CLONE_VM | CLONE_VFORK, work.second_stack, execute, of);
}

long run(Work &work, char *stacks)
{
    const unsigned long shared = CLONE_VM | CLONE_VFORK;
    work.second_stack = stacks + 2 * stack_size;
    if (work.what->child) {
        work.pid = cryo_clone(shared | SIGCHLD, stacks + stack_size, execute, &work);
    } else {
        const long between = cryo_clone(shared, stacks + stack_size, make_orphan, &work);
        if (sys::failed(between))
            return between;
        while (sys::call(SYS_wait4, between, nullptr, __WALL, nullptr) == -EINTR)
            ;
    }
    if (sys::failed(work.pid) || work.error == 0)
        return work.pid;
    if (work.what->child)
        sys::call(SYS_wait4, work.pid, nullptr, __WALL, nullptr);
    return work.error;
}

} // namespace

pid_t spawn(const Spawn &what)
{
    char path[PATH_MAX];
    if (!find_command(path, what.command))
        return -ENOENT;
    const char **environment = command_environment();
    void *stacks = mmap(nullptr, 2 * stack_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    long result = -ENOMEM;
    if (environment != nullptr && stacks != MAP_FAILED) {
        Work work = {&what, path, what.arguments, environment, nullptr, 0, 0};
        // No handler of the program may run in a process that shares its memory.
        const uint64_t all = ~uint64_t(0);
        uint64_t before = 0;
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof(all));
        result = run(work, static_cast<char *>(stacks));
        sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, sizeof(before));
    }
    if (stacks != MAP_FAILED)
        munmap(stacks, 2 * stack_size);
    free(environment);
    return static_cast<pid_t>(result < 0 || what.child ? result : 0);
}

} // namespace cryo::libcr
