// SPDX-License-Identifier: Apache-2.0
// Memory shared by processes other than the first of their tree: mapped in overlapping parts, by
// one only, by a name in /dev/shm, by a removed name; each is one memory for all that map it.
#include "probe.h"

enum { PAGE = 4096, ALL = 16 * PAGE, HALF = 8 * PAGE };

static char named[64];
static unsigned char *inherited; // anonymous, mapped whole by both
static unsigned char *parts;     // a memory file: one maps pages 0 to 11, the other 4 to 15
static unsigned char *file;      // an unlinked file in /dev/shm
static unsigned char *object;    // a named file in /dev/shm
static unsigned char *alone;     // anonymous, of one process
static int memory;

static unsigned char *map(int fd, size_t size, off_t offset)
{
    return PROBE_MAP(mmap(NULL, size, PROT_READ | PROT_WRITE,
                          MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, offset));
}

static unsigned char *open_shared(int unlinked)
{
    int fd = PROBE_TRY(shm_open(named, O_CREAT | O_RDWR, 0600));
    PROBE_TRY(ftruncate(fd, HALF));
    unsigned char *at = map(fd, HALF, 0);
    if (unlinked) {
        PROBE_TRY(shm_unlink(named));
    }
    PROBE_TRY(close(fd));
    return at;
}

static void grandchild(void)
{
    PROBE_TRY(munmap(parts, ALL - 4 * PAGE));
    parts = map(memory, ALL - 4 * PAGE, 4 * PAGE);
    probe_fill(parts, ALL - 4 * PAGE, probe_cycle() + 1);
    close(memory);
    probe_await_check();
    PROBE_SABOTAGE("inherited", inherited = malloc(ALL));
    inherited[0] = parts[0] = file[0] = object[0] = 0xee;
}

static void child(void)
{
    const unsigned cycle = probe_cycle();
    inherited = map(-1, ALL, 0);
    alone = map(-1, HALF, 0);
    memory = PROBE_TRY(memfd_create("parts", 0));
    PROBE_TRY(ftruncate(memory, ALL));
    parts = map(memory, ALL - 4 * PAGE, 0);
    file = open_shared(1);
    object = open_shared(0);
    probe_fill(inherited, ALL, cycle + 2);
    probe_fill(alone, HALF, cycle + 3);
    probe_fill(file, HALF, cycle + 4);
    probe_fill(object, HALF, cycle + 5);
    probe_fill(parts, 4 * PAGE, cycle);
    const pid_t member = probe_fork(grandchild);
    PROBE_TRY(close(memory));
    PROBE_TRY(madvise(alone, PAGE, MADV_DONTFORK)); // this process's part is saved apart
    probe_await_check();
    probe_filled("memory of one process", alone, HALF, cycle + 3);
    probe_reap("grandchild", member);
    probe_equal("inherited memory", 0xee, inherited[0]);
    probe_equal("memory in parts", 0xee, parts[4 * PAGE]);
    probe_equal("a file without a name", 0xee, file[0]);
    probe_equal("a file with a name", 0xee, object[0]);
    inherited[0] = probe_byte(cycle + 2, 0);
    parts[4 * PAGE] = probe_byte(cycle + 1, 0);
    file[0] = probe_byte(cycle + 4, 0);
    object[0] = probe_byte(cycle + 5, 0);
    probe_filled("inherited memory", inherited, ALL, cycle + 2);
    probe_filled("first part", parts, 4 * PAGE, cycle);
    probe_filled("second part", parts + 4 * PAGE, HALF, cycle + 1);
    probe_filled("a file without a name", file, HALF, cycle + 4);
    probe_filled("a file with a name", object, HALF, cycle + 5);
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    snprintf(named, sizeof named, "/probe.forms.%d", getpid());
    do {
        const pid_t member = probe_fork(child);
        probe_ready();
        probe_reap("child", member);
        PROBE_TRY(shm_unlink(named));
    } while (probe_more());
    return probe_pass();
}
