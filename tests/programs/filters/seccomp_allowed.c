// SPDX-License-Identifier: Apache-2.0
// A filter that ends the program for any system call that is not on its list. Not on it is
// restart_syscall, by which the kernel goes on with a sleep that a tracer's stop has interrupted.
#include "filter.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const int allowed[] = {
    // what the program itself calls
    SYS_access, SYS_faccessat, SYS_nanosleep, SYS_clock_nanosleep, SYS_link, SYS_linkat, SYS_rename,
    SYS_renameat, SYS_renameat2, SYS_fdatasync, SYS_fsync, SYS_exit, SYS_newfstatat, SYS_lseek,
    SYS_getpriority,
    // what Cryo calls in it, as any large program would
    SYS_rt_sigreturn, SYS_accept4, SYS_arch_prctl, SYS_bind, SYS_brk, SYS_chmod, SYS_clock_gettime,
    SYS_clone, SYS_close, SYS_close_range, SYS_dup3, SYS_exit_group, SYS_fchmod, SYS_fcntl,
    SYS_fstat, SYS_fstatfs, SYS_futex, SYS_get_mempolicy, SYS_get_robust_list, SYS_getdents64,
    SYS_geteuid, SYS_getitimer, SYS_getpgid, SYS_getpid, SYS_getppid, SYS_getrandom, SYS_getresuid,
    SYS_getsid, SYS_getsockname, SYS_getsockopt, SYS_gettid, SYS_inotify_add_watch, SYS_io_submit,
    SYS_ioctl, SYS_kill, SYS_listen, SYS_lstat, SYS_membarrier, SYS_memfd_create, SYS_mincore,
    SYS_mmap, SYS_mprotect, SYS_mq_getsetattr, SYS_mq_timedreceive, SYS_mq_timedsend, SYS_msgctl,
    SYS_msync, SYS_munmap, SYS_openat, SYS_pidfd_open, SYS_pipe2, SYS_pkey_mprotect, SYS_poll,
    SYS_ppoll, SYS_prctl, SYS_pread64, SYS_prlimit64, SYS_pwritev, SYS_read, SYS_readlinkat,
    SYS_recvfrom, SYS_recvmsg, SYS_rseq, SYS_rt_sigaction, SYS_rt_sigpending, SYS_rt_sigprocmask,
    SYS_rt_sigtimedwait, SYS_rt_tgsigqueueinfo, SYS_sched_getaffinity, SYS_sched_setaffinity,
    SYS_sched_yield, SYS_semctl, SYS_semop, SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_shmctl,
    SYS_socket, SYS_stat, SYS_tgkill, SYS_timer_gettime, SYS_unlink, SYS_utimensat, SYS_wait4,
    SYS_write};
// what Cryo does without, where these fail
static const int denied[] = {SYS_io_uring_enter, SYS_kcmp, SYS_keyctl, SYS_userfaultfd,
                             SYS_vmsplice};

static void confine(void)
{
    static struct sock_filter rules[2 * (COUNT(allowed) + COUNT(denied)) + 2];
    size_t count = 0;
    rules[count++] = (struct sock_filter)FILTER_BEGIN;
    for (size_t i = 0; i < COUNT(allowed) + COUNT(denied); i++) {
        const bool is_denied = i >= COUNT(allowed);
        const int number = is_denied ? denied[i - COUNT(allowed)] : allowed[i];
        const struct sock_filter answer[] = {
            FILTER_ANSWER(number, is_denied ? FILTER_FAIL(EPERM) : SECCOMP_RET_ALLOW)};
        rules[count++] = answer[0];
        rules[count++] = answer[1];
    }
    rules[count++] = (struct sock_filter)FILTER_ELSE(SECCOMP_RET_KILL_PROCESS);
    filter_on(rules, count, 0);
}

static long sleep_long(void *unused)
{
    (void)unused;
    const struct timespec long_time = {.tv_sec = 3600};
    return nanosleep(&long_time, NULL);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    static struct probe_sleeper sleeper;
    probe_sleep(&sleeper, sleep_long, NULL);
    confine();
    do {
        probe_ready();
        const bool denies = syscall(SYS_keyctl, 0, 0, 0, 0, 0) == -1 && errno == EPERM;
        probe_true("the denied call fails", denies && !probe_sabotaged("denied"));
        probe_still_asleep("the sleeping thread", &sleeper);
    } while (probe_more());
    return probe_pass();
}
