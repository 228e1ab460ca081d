// SPDX-License-Identifier: Apache-2.0
//
// Runs a command whose Nth system call fails, counted over all processes that it starts:
//
//     fail_nth N ERROR COMMAND...          N = 0: none fails
//     fail_nth CALL:N ERROR COMMAND...     only calls with this number count
//     fail_nth N ERROR --below PREFIX COMMAND...    only for programs with this path prefix
//
// The last line on descriptor 3, if it is open, gives the count and the call that failed: "calls
// 512 failed 257". Descriptor 4, if it is a file, holds the number of all calls answered so far, so
// that a test can tell a command that waits for a processor from one that hangs. A seccomp filter
// notifies this program before each call is made. Not counted are calls that end a process, return
// from a signal, or do not fail in this way, and execve; with EINTR all that never wait.
#include <cerrno>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

struct Errors {
    const char *name;
    int number;
};
constexpr Errors errors[] = {
    {"ENOMEM", ENOMEM}, {"EIO", EIO}, {"EMFILE", EMFILE}, {"EINTR", EINTR}, {"ENOSPC", ENOSPC}};

// Calls that never fail, and those whose failure no program can handle.
constexpr uint32_t exempt[] = {SYS_exit,
                               SYS_exit_group,
                               SYS_rt_sigreturn,
                               SYS_restart_syscall,
                               SYS_munmap,
                               SYS_rt_sigprocmask,
                               SYS_rt_sigaction,
                               SYS_set_robust_list,
                               SYS_set_tid_address,
                               SYS_rseq,
                               SYS_arch_prctl,
                               SYS_sched_yield,
                               SYS_getpid,
                               SYS_gettid,
                               SYS_getppid,
                               SYS_getuid,
                               SYS_geteuid,
                               SYS_getgid,
                               SYS_getegid,
                               SYS_futex,
                               SYS_tgkill,
                               SYS_kill,
                               SYS_wait4,
                               SYS_waitid,
                               SYS_clock_gettime,
                               SYS_brk,
                               SYS_umask};

constexpr int report_fd = 3;
constexpr int progress_fd = 4;

constexpr uint32_t waiting[] = {
    SYS_read,    SYS_pread64,  SYS_readv,   SYS_write,    SYS_pwrite64,   SYS_writev,
    SYS_poll,    SYS_ppoll,    SYS_select,  SYS_pselect6, SYS_wait4,      SYS_waitid,
    SYS_recvmsg, SYS_recvfrom, SYS_sendmsg, SYS_sendto,   SYS_connect,    SYS_accept4,
    SYS_openat,  SYS_open,     SYS_fsync,   SYS_flock,    SYS_epoll_wait, SYS_epoll_pwait};

struct Shared {
    volatile int listener;
};

int install(uint32_t errors_number)
{
    std::vector<sock_filter> code;
    code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    const auto answer = [&](uint32_t call, uint32_t action) {
        code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1));
        code.push_back(BPF_STMT(BPF_RET | BPF_K, action));
    };
    // The first execve waits for the parent, which fetches the listener meanwhile.
    answer(SYS_execve, SECCOMP_RET_USER_NOTIF);
    if (errors_number == EINTR) {
        for (uint32_t call : waiting)
            answer(call, SECCOMP_RET_USER_NOTIF);
        code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    } else {
        for (uint32_t call : exempt)
            answer(call, SECCOMP_RET_ALLOW);
        code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
    }
    const sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return static_cast<int>(
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
}

[[noreturn]] void become(char **command, int number, Shared *shared)
{
    close(progress_fd);
    // Only a write to memory may follow: each system call from here on waits for the parent.
    shared->listener = install(static_cast<uint32_t>(number));
    execvp(command[0], command);
    _exit(127);
}

class Supervisor
{
  public:
    Supervisor(int listener, const char *which, int number, std::string below)
        : listener_(listener), number_(number), below_(std::move(below))
    {
        void *shared =
            mmap(nullptr, sizeof(*progress_), PROT_READ | PROT_WRITE, MAP_SHARED, progress_fd, 0);
        if (shared != MAP_FAILED)
            progress_ = static_cast<volatile uint64_t *>(shared);
        const char *colon = strchr(which, ':');
        only_ = colon != nullptr ? atoi(which) : -1;
        nth_ = strtol(colon != nullptr ? colon + 1 : which, nullptr, 10);
    }

    // Runs until no process with the filter is left.
    void go()
    {
        for (;;) {
            pollfd ready = {listener_, POLLIN, 0};
            if (poll(&ready, 1, -1) < 0)
                continue;
            if (!(ready.revents & POLLIN))
                return;
            answer();
        }
    }

    long calls() const { return calls_; }
    int failed() const { return failed_; }

  private:
    // The dynamic loader's own calls are outside Cryo's control: it crashes if some of them
    // fail.
    static bool is_loaders(const seccomp_notif &asked)
    {
        char line[PATH_MAX + 128];
        snprintf(line, sizeof(line), "/proc/%u/maps", asked.pid);
        FILE *maps = fopen(line, "re");
        bool loaders = false;
        while (maps != nullptr && fgets(line, sizeof(line), maps) != nullptr) {
            unsigned long start = 0;
            unsigned long end = 0;
            if (sscanf(line, "%lx-%lx", &start, &end) == 2 &&
                asked.data.instruction_pointer >= start && asked.data.instruction_pointer < end)
                loaders = strstr(line, "/ld-linux") != nullptr;
        }
        if (maps != nullptr)
            fclose(maps);
        return loaders;
    }

    bool is_below(const seccomp_notif &asked) const
    {
        char path[PATH_MAX] = "";
        char link[64];
        snprintf(link, sizeof(link), "/proc/%u/exe", asked.pid);
        return readlink(link, path, sizeof(path) - 1) > 0 &&
               strncmp(path, below_.c_str(), below_.size()) == 0;
    }

    void answer()
    {
        seccomp_notif asked = {};
        if (ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
            return; // the call was interrupted meanwhile, and will be made again
        *progress_ = *progress_ + 1;
        seccomp_notif_resp said = {};
        said.id = asked.id;
        const bool counts = only_ >= 0 ? asked.data.nr == only_ : asked.data.nr != SYS_execve;
        if (counts && (below_.empty() || is_below(asked)) && ++calls_ == nth_ &&
            !is_loaders(asked)) {
            failed_ = asked.data.nr;
            said.error = -number_;
        } else {
            said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
        }
        ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &said);
    }

    int listener_;
    int only_;
    long nth_;
    int number_;
    std::string below_;
    long calls_ = 0;
    int failed_ = -1;
    volatile uint64_t nowhere_ = 0;
    volatile uint64_t *progress_ = &nowhere_;
};

int number_of(const char *name)
{
    for (const Errors &error : errors) {
        if (strcmp(error.name, name) == 0)
            return error.number;
    }
    fprintf(stderr, "fail_nth: no error '%s'\n", name);
    exit(2);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: fail_nth N ERROR COMMAND...\n");
        return 2;
    }
    const int number = number_of(argv[2]);
    const bool some = argc > 5 && strcmp(argv[3], "--below") == 0;
    const std::string below = some ? argv[4] : "";
    auto *shared = static_cast<Shared *>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    shared->listener = -2;
    const pid_t child = fork();
    if (child == 0)
        become(argv + (some ? 5 : 3), number, shared);
    while (shared->listener == -2)
        usleep(100);
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
    const int listener = static_cast<int>(syscall(SYS_pidfd_getfd, pidfd, shared->listener, 0));
    if (listener < 0) {
        perror("fail_nth: the filter");
        return 2;
    }
    const pid_t reporter = fork();
    if (reporter == 0) {
        // A process of its own, to serve programs that the command leaves running.
        setsid();
        Supervisor supervisor(listener, argv[1], number, below);
        supervisor.go();
        dprintf(report_fd, "calls %ld failed %d\n", supervisor.calls(), supervisor.failed());
        _exit(0);
    }
    close(listener);
    close(report_fd);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
