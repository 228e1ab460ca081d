// SPDX-License-Identifier: Apache-2.0
// A child and a grandchild with the working directory and umask of their parent (CLONE_FS): what
// one of them changes has changed for all. Another child has its own, alike at first. With APART
// all have. With LARGE they have so much memory alike that they come back as copies of their
// parents.
#include "probe.h"

#include <sched.h>
#include <sys/socket.h>

#ifdef APART
enum { SHARED = 0 };
#else
enum { SHARED = CLONE_FS };
#endif

enum request { TELL, RESET, MOVE, MASK, LEAVE };

struct answer {
    ino_t directory;
    mode_t mask;
};

struct member {
    pid_t pid;
    int ends[2];
};

static struct member child = {0, {-1, -1}}, grandchild = {0, {-1, -1}}, apart = {0, {-1, -1}};
static char one[4096], two[4096], stacks[3][64 << 10] __attribute__((aligned(16)));

#ifdef LARGE
static char memory[2 << 20];
#endif

static ino_t number_of(const char *path)
{
    struct stat status;
    PROBE_TRY(stat(path, &status));
    return status.st_ino;
}

static mode_t mask(void)
{
    const mode_t own = umask(0);
    umask(own);
    return own;
}

static void make(struct member *member, int (*run)(void *), char *stack, int flags)
{
    PROBE_TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, member->ends));
    member->pid =
        PROBE_TRY(clone(run, stack + sizeof stacks[0], flags | SIGCHLD, &member->ends[1]));
}

static void reset(void)
{
    PROBE_TRY(chdir(one));
    umask(022);
}

// Answers each request, until the first process ends.
static int serve(void *end)
{
    enum request request;
    close(child.ends[0]);
    close(grandchild.ends[0]);
    close(apart.ends[0]);
    while (read(*(int *)end, &request, sizeof request) == sizeof request) {
        if (request == RESET) {
            reset();
        } else if (request == MOVE) {
            PROBE_TRY(chdir(two));
        } else if (request == MASK) {
            umask(027);
        } else if (request == LEAVE) {
            PROBE_TRY(unshare(CLONE_FS));
        }
        const struct answer answer = {number_of("."), mask()};
        if (write(*(int *)end, &answer, sizeof answer) != sizeof answer) {
            break;
        }
    }
    return 0;
}

static int make_and_serve(void *end)
{
    grandchild.pid = PROBE_TRY(
        clone(serve, stacks[1] + sizeof stacks[1], SHARED | SIGCHLD, &grandchild.ends[1]));
    const int status = serve(end);
    probe_reap("the grandchild", grandchild.pid);
    return status;
}

static struct answer ask(const struct member *member, enum request request)
{
    struct answer answer = {0};
    probe_equal("bytes to a member", sizeof request,
                write(member->ends[0], &request, sizeof request));
    probe_equal("bytes from a member", sizeof answer,
                read(member->ends[0], &answer, sizeof answer));
    return answer;
}

static void check(const char *of, const struct member *member, bool with_us, ino_t directory,
                  mode_t other)
{
    char what[64];
    const struct answer found = ask(member, TELL);
    snprintf(what, sizeof what, "working directory of %s", of);
    probe_equal(what, with_us ? number_of(".") : directory, found.directory);
    snprintf(what, sizeof what, "umask of %s", of);
    probe_equal(what, with_us ? mask() : other, found.mask);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    snprintf(one, sizeof one, "%s", probe_path("one"));
    snprintf(two, sizeof two, "%s", probe_path("two"));
    mkdir(one, 0700);
    mkdir(two, 0700);
#ifdef LARGE
    probe_fill(memory, sizeof memory, 3);
#endif
    reset();
    PROBE_TRY(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, grandchild.ends));
    make(&child, make_and_serve, stacks[0], SHARED);
    make(&apart, serve, stacks[2], 0);
    const ino_t first = number_of(one);
    do {
        reset();
        ask(&child, RESET);
        ask(&grandchild, RESET);
        ask(&apart, RESET);
        probe_ready();
        PROBE_SABOTAGE("directory", ask(&child, SHARED != 0 ? LEAVE : MOVE));
        PROBE_TRY(chdir(two));
        check("the child", &child, SHARED != 0, first, 022);
        check("the grandchild", &grandchild, SHARED != 0, first, 022);
        check("another child", &apart, false, first, 022);
        ask(&grandchild, MASK);
        probe_equal("umask that the grandchild has set", SHARED != 0 ? 027 : 022, mask());
        check("the child afterwards", &child, SHARED != 0, first, 022);
        check("another child afterwards", &apart, false, first, 022);
#ifdef LARGE
        probe_filled("memory", memory, sizeof memory, 3);
#endif
    } while (probe_more());
    close(child.ends[0]);
    close(grandchild.ends[0]);
    close(apart.ends[0]);
    probe_reap("the child", child.pid);
    probe_reap("another child", apart.pid);
    return probe_pass();
}
