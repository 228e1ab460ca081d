// SPDX-License-Identifier: Apache-2.0
// A child with its parent's I/O context (CLONE_IO): they have one I/O priority. Another child has a
// context of its own. There is so much memory that they come back as copies of the parent.
#include "probe.h"

#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/socket.h>

enum { FIRST = 3, SECOND = 5, THIRD = 6 };

struct member {
    pid_t pid;
    int ends[2];
};

static struct member child = {0, {-1, -1}}, apart = {0, {-1, -1}};
static char stacks[2][64 << 10] __attribute__((aligned(16)));
static char memory[2 << 20];

static int level(void)
{
    return (int)IOPRIO_PRIO_DATA(PROBE_TRY(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0)));
}

static void set_level(int level)
{
    PROBE_TRY(
        syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, level)));
}

// Sets the level that it is told, if any, and answers with its own, until the first process ends.
static int serve(void *end)
{
    int wished;
    close(child.ends[0]);
    close(apart.ends[0]);
    while (read(*(int *)end, &wished, sizeof wished) == sizeof wished) {
        if (wished != 0) {
            set_level(wished);
        }
        const int present = level();
        if (write(*(int *)end, &present, sizeof present) != sizeof present) {
            break;
        }
    }
    return 0;
}

static void make(struct member *member, char *stack, int flags)
{
    PROBE_TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, member->ends));
    member->pid =
        PROBE_TRY(clone(serve, stack + sizeof stacks[0], flags | SIGCHLD, &member->ends[1]));
}

static int ask(const struct member *member, int wished)
{
    int present = -1;
    probe_equal("bytes to a member", sizeof wished, write(member->ends[0], &wished, sizeof wished));
    probe_equal("bytes from a member", sizeof present,
                read(member->ends[0], &present, sizeof present));
    return present;
}

// The kernel's own word, where it may be asked.
static void compare(const char *what, bool shared, pid_t other)
{
    const long order = syscall(SYS_kcmp, getpid(), other, KCMP_IO, 0, 0);
    if (order >= 0) {
        probe_equal(what, shared, order == 0);
    }
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    probe_fill(memory, sizeof memory, 3);
    set_level(FIRST);
    make(&child, stacks[0], CLONE_IO);
    make(&apart, stacks[1], 0);
    do {
        set_level(FIRST);
        ask(&child, 0);
        ask(&apart, FIRST);
        probe_ready();
        const bool wrong = probe_sabotaged("priority");
        const struct member *other = wrong ? &apart : &child;
        probe_equal("I/O priority", FIRST, level());
        set_level(SECOND);
        probe_equal("I/O priority of the child", SECOND, ask(other, 0));
        ask(other, THIRD);
        probe_equal("I/O priority that the child has set", THIRD, level());
        probe_equal("I/O priority of another child", FIRST, ask(&apart, 0));
        probe_filled("memory", memory, sizeof memory, 3);
        if (!probe_told("newids")) {
            compare("I/O context with the child", true, child.pid);
            compare("I/O context with another child", false, apart.pid);
        }
    } while (probe_more());
    close(child.ends[0]);
    close(apart.ends[0]);
    probe_reap("the child", child.pid);
    probe_reap("another child", apart.pid);
    return probe_pass();
}
