// SPDX-License-Identifier: Apache-2.0
// Conway's life on a torus, integers only: the digest is the same whatever happens on the way.
// Every hundred steps a line goes to DIR/log; --steps makes it as long as a test needs.
#include "probe.h"

enum { SIDE = 128, USUAL_STEPS = 1500 };

static uint8_t now[SIDE][SIDE], next[SIDE][SIDE];

static void start(unsigned long seed)
{
    for (int i = 0; i < SIDE * SIDE; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        now[i / SIDE][i % SIDE] = seed >> 62 == 0;
    }
}

static void step(void)
{
    for (int y = 0; y < SIDE; y++) {
        for (int x = 0; x < SIDE; x++) {
            int alive = -now[y][x];
            for (int i = 0; i < 9; i++) {
                alive += now[(y + i / 3 + SIDE - 1) % SIDE][(x + i % 3 + SIDE - 1) % SIDE];
            }
            next[y][x] = alive == 3 || (alive == 2 && now[y][x]);
        }
    }
    memcpy(now, next, sizeof now);
}

static uint64_t digest(void)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (int i = 0; i < SIDE * SIDE; i++) {
        hash = (hash ^ now[i / SIDE][i % SIDE]) * 0x100000001b3u;
    }
    return hash;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const unsigned long steps = probe_steps(USUAL_STEPS);
    int log = PROBE_TRY(open(probe_path("log"), O_CREAT | O_RDWR | O_APPEND, 0600));
    do {
        start(probe_seed());
        off_t size = lseek(log, 0, SEEK_END);
        probe_announce(); // from now on it may be saved, or killed, at any moment
        for (unsigned long i = 1; i <= steps; i++) {
            step();
            if (i % 100 == 0) {
                size += PROBE_TRY(dprintf(log, "%10lu %016lx\n", i, digest()));
            }
        }
        const uint64_t computed = digest();
        probe_await_check();
        PROBE_SABOTAGE("digest", now[5][5] ^= 1);
        PROBE_SABOTAGE("log", PROBE_TRY(dprintf(log, "a line too many\n")));
        probe_equal("digest after the wait", (long long)computed, (long long)digest());
        probe_equal("size of the log", size, lseek(log, 0, SEEK_END));
        if (steps == USUAL_STEPS && probe_seed() == 1) {
            probe_equal("digest", (long long)0x4f85e6cfa75b82c0, (long long)computed);
        }
        printf("digest %016lx after %lu steps\n", computed, steps);
        fflush(stdout);
    } while (probe_more());
    return probe_pass();
}
