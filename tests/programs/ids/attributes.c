// SPDX-License-Identifier: Apache-2.0
// Per-process treatment by the kernel: oom_score_adj, coredump_filter, I/O priorities of threads;
// and as root supplementary groups, the bounding set and ambient capabilities.
#include "probe.h"

#include <grp.h>
#include <linux/capability.h>
#include <linux/ioprio.h>
#include <pthread.h>
#include <sys/prctl.h>

enum {
    low = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 6),
    idle = IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)
};

// Shared with other(), whose thread reports its priority on request.
static _Atomic int asked, answer;

static void *other(void *unused)
{
    (void)unused;
    PROBE_TRY(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, idle));
    for (;;) {
        if (asked) {
            answer = PROBE_TRY(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
            asked = 0;
        }
        usleep(1000);
    }
    return NULL;
}

static int priority_of_other(void)
{
    asked = 1;
    while (asked)
        usleep(1000);
    return answer;
}

static long number_in(const char *path, int base)
{
    char text[64] = "";
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(text, sizeof text, file) == NULL)
        probe_fail("%s cannot be read", path);
    fclose(file);
    return strtol(text, NULL, base);
}

static void put(const char *path, long number)
{
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%ld", number) < 0 || fclose(file) != 0)
        probe_fail("%s cannot be written", path);
}

static int as_root;

static void become_special(void)
{
    static struct __user_cap_data_struct data[2];
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const gid_t groups[] = {5, 7, 4711};
    PROBE_TRY(setgroups(3, groups));
    PROBE_TRY(prctl(PR_CAPBSET_DROP, CAP_NET_ADMIN));
    PROBE_TRY(syscall(SYS_capget, &header, data));
    data[0].inheritable |= 1U << CAP_NET_BIND_SERVICE;
    PROBE_TRY(syscall(SYS_capset, &header, data));
    PROBE_TRY(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_BIND_SERVICE, 0, 0));
}

static void check_special(void)
{
    gid_t groups[8];
    probe_equal("number of groups", 3, getgroups(8, groups));
    probe_equal("last group", 4711, groups[2]);
    probe_equal("bounding set", 0, prctl(PR_CAPBSET_READ, CAP_NET_ADMIN));
    probe_equal("ambient capability", 1,
                prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_NET_BIND_SERVICE, 0, 0));
}

int main(int argc, char **argv)
{
    pthread_t thread;
    probe_start(argc, argv);
    as_root = prctl(PR_CAPBSET_READ, CAP_SETPCAP) == 1 && geteuid() == 0;
    const long score = number_in("/proc/self/oom_score_adj", 10) + 17;
    put("/proc/self/oom_score_adj", score);
    put("/proc/self/coredump_filter", 0x15);
    PROBE_ZERO(pthread_create(&thread, NULL, other, NULL));
    priority_of_other();
    PROBE_TRY(syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, low));
    if (as_root)
        become_special();
    do {
        probe_ready();
        PROBE_SABOTAGE("oom_score_adj", put("/proc/self/oom_score_adj", score + 1));
        PROBE_SABOTAGE("ioprio", syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, idle));
        probe_equal("oom_score_adj", score, number_in("/proc/self/oom_score_adj", 10));
        probe_equal("coredump_filter", 0x15, number_in("/proc/self/coredump_filter", 16));
        probe_equal("ioprio", low, syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0));
        probe_equal("ioprio of a thread", idle, priority_of_other());
        if (as_root)
            check_special();
    } while (probe_more());
    return probe_pass();
}
