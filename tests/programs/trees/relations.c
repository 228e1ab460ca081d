// SPDX-License-Identifier: Apache-2.0
// Parents, process groups and sessions: a child in the group of its parent, one with its own
// group and a member in it, and one that leads a session.
#include "probe.h"

static pid_t root, group;

static void same_group(void)
{
    probe_await_check();
    PROBE_SABOTAGE("group", setpgid(0, 0));
    probe_equal("group of a child in the root's group", getpgid(root), getpgrp());
    probe_equal("parent of it", root, getppid());
}

static void own_group(void)
{
    PROBE_TRY(setpgid(0, 0));
    probe_await_check();
    probe_equal("group of its leader", getpid(), getpgrp());
    probe_equal("session of the group", getsid(root), getsid(0));
}

static void joins_group(void)
{
    PROBE_TRY(setpgid(0, group));
    probe_await_check();
    probe_equal("group that was joined", group, getpgrp());
}

static void grandchild(void)
{
    probe_await_check();
    probe_equal("session of a grandchild", getppid(), getsid(0));
}

static void own_session(void)
{
    PROBE_TRY(setsid());
    const pid_t member = probe_fork(grandchild);
    probe_await_check();
    probe_equal("session of its leader", getpid(), getsid(0));
    probe_equal("group of a session leader", getpid(), getpgrp());
    probe_reap("grandchild", member);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    root = getpid();
    do {
        pid_t members[4];
        members[0] = probe_fork(same_group);
        members[1] = group = probe_fork(own_group);
        members[2] = probe_fork(joins_group);
        members[3] = probe_fork(own_session);
        probe_ready();
        probe_equal("group of a child, seen by the parent", group, getpgid(members[2]));
        for (int i = 3; i >= 0; i--) {
            probe_reap("member", members[i]);
        }
    } while (probe_more());
    return probe_pass();
}
