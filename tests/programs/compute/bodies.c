// SPDX-License-Identifier: Apache-2.0
// Bodies under gravity, two threads kept in step by a barrier, doubles: every bit of the digest is
// as in an undisturbed run, which the program makes itself afterwards.
#include "probe.h"

enum { BODIES = 64, USUAL_STEPS = 300, THREADS = 2 };

struct body {
    double position[3], velocity[3], mass;
};

static struct body bodies[BODIES];
static pthread_barrier_t barrier;
static unsigned long steps;

static void start(unsigned long seed)
{
    for (int i = 0; i < BODIES; i++) {
        for (int axis = 0; axis < 3; axis++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            bodies[i].position[axis] = (double)(seed >> 40) / (1 << 24) - 0.5;
            bodies[i].velocity[axis] = 0;
        }
        bodies[i].mass = 1.0 + i * 0.01;
    }
}

static void accelerate(struct body *body)
{
    for (int j = 0; j < BODIES; j++) {
        double distance[3], square = 0.01;
        for (int axis = 0; axis < 3; axis++) {
            distance[axis] = bodies[j].position[axis] - body->position[axis];
            square += distance[axis] * distance[axis];
        }
        for (int axis = 0; axis < 3; axis++) {
            body->velocity[axis] += 1e-6 * bodies[j].mass * distance[axis] / square;
        }
    }
}

static void *move(void *argument)
{
    const size_t share = BODIES / THREADS, first = (size_t)(uintptr_t)argument * share;
    for (unsigned long step = 0; step < steps; step++) {
        for (size_t i = first; i < first + share; i++) {
            accelerate(&bodies[i]);
        }
        pthread_barrier_wait(&barrier);
        for (size_t i = first; i < first + share; i++) {
            for (int axis = 0; axis < 3; axis++) {
                bodies[i].position[axis] += bodies[i].velocity[axis];
            }
        }
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static uint64_t compute(void)
{
    pthread_t threads[THREADS];
    start(probe_seed());
    for (size_t i = 0; i < THREADS; i++) {
        PROBE_ZERO(pthread_create(&threads[i], NULL, move, (void *)(uintptr_t)i));
    }
    for (size_t i = 0; i < THREADS; i++) {
        PROBE_ZERO(pthread_join(threads[i], NULL));
    }
    uint64_t hash = 0xcbf29ce484222325u;
    const unsigned char *bytes = (const unsigned char *)bodies;
    for (size_t i = 0; i < sizeof bodies; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    }
    return hash;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    steps = probe_steps(USUAL_STEPS);
    PROBE_ZERO(pthread_barrier_init(&barrier, NULL, THREADS));
    do {
        probe_announce(); // from now on it may be saved, or killed, at any moment
        const uint64_t disturbed = compute();
        probe_await_check();
        uint64_t undisturbed = compute();
        PROBE_SABOTAGE("digest", undisturbed++);
        probe_equal("digest of the bodies", (long long)undisturbed, (long long)disturbed);
        printf("digest %016lx after %lu steps\n", disturbed, steps);
        fflush(stdout);
    } while (probe_more());
    return probe_pass();
}
