/* SPDX-License-Identifier: Apache-2.0 */
/* Between its MPI calls this program is nearly always inside a C library function that holds a
 * lock. Saved there, it resumes holding the lock: no code may need it before the program continues,
 * and the program must be able to release it.
 *
 *     locks KIND ROUNDS
 *
 * KIND: load (dlopen, dlclose), print (stdio), fork, allocate (malloc in several threads, which
 * call MPI themselves), or all. */
#define _GNU_SOURCE
#include "check.h"
#include "witness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define THREADS 3

static int rank, size, rounds;
static FILE *sink;
static atomic_int over;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

/* The constructor of the loaded library takes some time, under the loader's lock. */
static void load(void)
{
    void *part = dlopen(PART, RTLD_NOW | RTLD_LOCAL);
    CHECK(part != NULL && dlsym(part, "part_of_locks") != NULL);
    CHECK(dlclose(part) == 0);
}

static void print(void)
{
    FILE *file = fopen("/dev/null", "w");
    CHECK(file != NULL && fprintf(file, "%d of %d, %g\n", rank, size, now()) > 0);
    flockfile(sink);
    for (int i = 0; i < 20; i++)
        CHECK(fprintf(sink, "%d of %d, %g\n", rank, size, now()) > 0);
    CHECK(fflush(sink) == 0);
    funlockfile(sink);
    CHECK(fclose(file) == 0);
}

/* After a job's restart the child may have another pid than fork() returned. */
static void fork_once(void)
{
    int status = -1;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        _exit(7);
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void allocate(void)
{
    static _Thread_local unsigned seed = 1;
    void *blocks[64] = {NULL};
    for (int i = 0; i < 2000; i++) {
        seed = seed * 1103515245U + 12345U;
        void **block = &blocks[seed >> 8 & 63];
        free(*block);
        const size_t bytes = 16 + (seed >> 14 & 8191);
        *block = malloc(bytes);
        CHECK(*block != NULL);
        memset(*block, rank, bytes < 64 ? bytes : 64);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
}

static void all(void)
{
    load();
    print();
    fork_once();
}

static const struct kind {
    const char *name;
    void (*work)(void);
    int threads; /* allocating threads: with own messages, or beside the work */
} kinds[] = {{"load", load, 0},
             {"print", print, 0},
             {"fork", fork_once, 0},
             {"allocate", allocate, THREADS},
             {"all", all, THREADS - 1}};

static void spend(void (*work)(void), double milliseconds)
{
    for (const double end = now() + milliseconds; now() < end;)
        work();
}

/* Some work, some communication. After the last round it continues uncounted until the job may
 * end. */
static unsigned long long communicate(void (*work)(void), MPI_Comm comm)
{
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    const char *hold = getenv("CRYO_HOLD");
    unsigned long long sum = 14695981039346656037ULL;
    for (int round = 0, is_held = 1; round < rounds || is_held; round++) {
        int out = rank * 1000 + round, in, total;
        bear_witness(rank);
        is_held = hold != NULL && access(hold, F_OK) == 0;
        spend(work, 3);
        OK(MPI_Sendrecv(&out, 1, MPI_INT, right, 1, &in, 1, MPI_INT, left, 1, comm,
                        MPI_STATUS_IGNORE));
        spend(work, rank == round % size ? 2 : 0);
        OK(MPI_Allreduce(&in, &total, 1, MPI_INT, MPI_SUM, comm));
        OK(MPI_Bcast(&is_held, 1, MPI_INT, 0, comm));
        if (round < rounds)
            sum = mix(mix(sum, &in, sizeof(in)), &total, sizeof(total));
    }
    return sum;
}

struct job {
    MPI_Comm comm; /* null: works without calling MPI */
    unsigned long long sum;
};

static void *run_beside(void *data)
{
    struct job *job = data;
    if (job->comm != MPI_COMM_NULL)
        job->sum = communicate(allocate, job->comm);
    while (job->comm == MPI_COMM_NULL && !over)
        allocate();
    return NULL;
}

int main(int argc, char **argv)
{
    const struct kind *kind = kinds;
    struct job jobs[THREADS] = {0};
    pthread_t threads[THREADS];
    int provided;
    CHECK(argc == 3);
    while (strcmp(kind->name, argv[1]) != 0)
        kind++;
    rounds = atoi(argv[2]);
    const int in_mpi = kind->work == allocate;
    sink = fopen("/dev/null", "w");
    CHECK(sink != NULL);
    OK(MPI_Init_thread(&argc, &argv, in_mpi ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED,
                       &provided));
    CHECK(!in_mpi || provided == MPI_THREAD_MULTIPLE);
    OK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    OK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    for (int i = 0; i < kind->threads; i++) {
        jobs[i].comm = MPI_COMM_NULL;
        if (in_mpi)
            OK(MPI_Comm_dup(MPI_COMM_WORLD, &jobs[i].comm));
        CHECK(pthread_create(&threads[i], NULL, run_beside, &jobs[i]) == 0);
    }
    unsigned long long sum = communicate(kind->work, MPI_COMM_WORLD);
    over = 1;
    for (int i = 0; i < kind->threads; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        sum = mix(sum, &jobs[i].sum, sizeof(jobs[i].sum));
        if (in_mpi)
            OK(MPI_Comm_free(&jobs[i].comm));
    }
    printf("%d: %016llx\n", rank, sum);
    OK(MPI_Finalize());
    return 0;
}
