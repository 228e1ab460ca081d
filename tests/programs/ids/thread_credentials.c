// SPDX-License-Identifier: Apache-2.0
// Privileges that only one thread has given up: capabilities, the bounding set, new privileges,
// securebits. The other thread keeps its own.
#include "probe.h"

#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sys/prctl.h>

struct privileges {
    struct __user_cap_data_struct sets[2];
    int no_new_privs, securebits, bounded;
};

enum { GIVEN_UP = CAP_NET_RAW };

static struct privileges now(void)
{
    struct privileges found = {0};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    PROBE_TRY(syscall(SYS_capget, &header, found.sets));
    found.no_new_privs = (int)PROBE_TRY(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    found.securebits = (int)PROBE_TRY(prctl(PR_GET_SECUREBITS, 0, 0, 0, 0));
    found.bounded = (int)PROBE_TRY(prctl(PR_CAPBSET_READ, GIVEN_UP));
    return found;
}

static struct privileges wanted, found;
static volatile int ready, asked, answered;

static void *restricted(void *nothing)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct privileges own = now();
    if ((own.sets[0].effective & 1u << CAP_SETPCAP) != 0) {
        PROBE_TRY(prctl(PR_CAPBSET_DROP, GIVEN_UP));
        PROBE_TRY(prctl(PR_SET_SECUREBITS, SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_KEEP_CAPS));
    } else {
        PROBE_TRY(prctl(PR_SET_KEEPCAPS, 1));
    }
    own.sets[0].permitted &= ~(1u << GIVEN_UP);
    own.sets[0].effective &= ~(1u << GIVEN_UP);
    PROBE_TRY(syscall(SYS_capset, &header, own.sets));
    PROBE_TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    wanted = now();
    for (ready = 1;; answered++) {
        while (asked == answered) {
            usleep(1000);
        }
        found = now();
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const struct privileges main_thread = now();
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, restricted, NULL));
    probe_await("the thread", &ready);
    do {
        probe_ready();
        asked++;
        while (answered != asked) {
            usleep(1000);
        }
        PROBE_SABOTAGE("no new privileges", found.no_new_privs = 0);
        probe_equal("no new privileges of the thread", 1, found.no_new_privs);
        probe_equal("securebits of the thread", wanted.securebits, found.securebits);
        probe_equal("bounding set of the thread", wanted.bounded, found.bounded);
        probe_equal_bytes("capabilities of the thread", wanted.sets, found.sets,
                          sizeof wanted.sets);
        const struct privileges still = now();
        probe_equal("no new privileges of main", main_thread.no_new_privs, still.no_new_privs);
        probe_equal("securebits of main", main_thread.securebits, still.securebits);
        probe_equal("bounding set of main", main_thread.bounded, still.bounded);
        probe_equal_bytes("capabilities of main", main_thread.sets, still.sets, sizeof still.sets);
    } while (probe_more());
    return probe_pass();
}
