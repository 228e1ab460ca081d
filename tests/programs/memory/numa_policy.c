// SPDX-License-Identifier: Apache-2.0
// NUMA policies: of the thread, of another thread, of a mapping. One node is enough to set them.
#include "probe.h"

#include <linux/mempolicy.h>
#include <pthread.h>

enum { SIZE = 16 * 4096, NODES = 1024 };

static volatile int ready, asked, answered, mode_of_thread;

static int policy(const void *at, unsigned flags)
{
    int mode = -1;
    unsigned long nodes[NODES / 64] = {0};
    PROBE_TRY(syscall(SYS_get_mempolicy, &mode, nodes, NODES, at, flags));
    return mode * 16 + (int)(nodes[0] & 1);
}

static void *local(void *nothing)
{
    PROBE_TRY(syscall(SYS_set_mempolicy, MPOL_LOCAL, NULL, 0));
    for (ready = 1;; answered++) {
        while (asked == answered) {
            usleep(1000);
        }
        mode_of_thread = policy(NULL, 0);
    }
    return nothing;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned long first_node = 1;
    pthread_t thread;
    PROBE_ZERO(pthread_create(&thread, NULL, local, NULL));
    probe_await("the thread", &ready);
    PROBE_TRY(syscall(SYS_set_mempolicy, MPOL_PREFERRED, &first_node, 64));
    unsigned char *memory =
        PROBE_MAP(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    PROBE_TRY(
        syscall(SYS_mbind, memory, SIZE / 2, MPOL_BIND | MPOL_F_STATIC_NODES, &first_node, 64, 0));
    const int bound = policy(memory, MPOL_F_ADDR);
    probe_fill(memory, SIZE, 1);
    do {
        probe_ready();
        PROBE_SABOTAGE("policy of a mapping",
                       syscall(SYS_mbind, memory, SIZE / 2, MPOL_DEFAULT, NULL, 0, 0));
        asked++;
        while (answered != asked) {
            usleep(1000);
        }
        probe_equal("policy of the thread", MPOL_PREFERRED * 16 + 1, policy(NULL, 0));
        probe_equal("policy of another thread", MPOL_LOCAL * 16, mode_of_thread);
        probe_equal("policy of a mapping", bound, policy(memory, MPOL_F_ADDR));
        probe_equal("policy of its neighbour", 0, policy(memory + SIZE / 2, MPOL_F_ADDR));
        probe_filled("contents", memory, SIZE, 1);
    } while (probe_more());
    return probe_pass();
}
