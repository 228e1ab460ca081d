/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client that saves itself:
 *
 *     self LOG [WORD]
 *
 * It counts steps, and notes each in a table. WORD: large (so is the table); fails (to save, while
 * LOG.full exists); refuses (to be restored); never (reaches a point); gated (its points begin when
 * LOG.open exists); once (it removes LOG.point, and is at one point); threads (four are at points);
 * forks (while another thread is saving, until LOG.go exists: the child goes on as the program);
 * late (it goes to /, and registers, when LOG.begin exists); maps (another file that is named as
 * libcr's page). It ends when LOG.end does, with 7 if the table is right.
 */
#include <libcr.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *path;
static const char *word;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the following */
static unsigned step, size = 100;
static unsigned *table;
static volatile int saving; /* the first process's thread is */
static pid_t first;

static void say(const char *what, long long number)
{
    char line[200];
    const int length = snprintf(line, sizeof(line), "%s %lld\n", what, number);
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        abort();
    close(fd);
}

static int exists(const char *suffix)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.%s", path, suffix);
    return access(name, F_OK) == 0;
}

static void nap(void)
{
    const struct timespec pause = {0, 1000000};
    nanosleep(&pause, NULL);
}

static int save(int fd, void *arg)
{
    (void)arg;
    saving = 1;
    while (strcmp(word, "forks") == 0 && getpid() == first && !exists("go"))
        nap();
    FILE *file = fdopen(dup(fd), "w");
    pthread_mutex_lock(&lock);
    int good = file != NULL && fprintf(file, "%u %u\n", step, size) > 0 &&
               fwrite(table, sizeof(*table), size, file) == size;
    say("saved", step);
    pthread_mutex_unlock(&lock);
    if (file != NULL && fclose(file) != 0)
        good = 0;
    if (strcmp(word, "fails") == 0 && exists("full"))
        return -ENOSPC;
    return good ? 0 : EIO;
}

static int restore(int fd, void *arg)
{
    (void)arg;
    if (strcmp(word, "refuses") == 0)
        return EDOM;
    FILE *file = fdopen(dup(fd), "r");
    const int good = file != NULL && fscanf(file, "%u %u", &step, &size) == 2 &&
                     fgetc(file) == '\n' && fread(table, sizeof(*table), size, file) == size &&
                     fgetc(file) == EOF;
    if (file != NULL)
        fclose(file);
    return good ? 0 : EIO;
}

static int takes(const char *suffix)
{
    char name[4096];
    snprintf(name, sizeof(name), "%s.%s", path, suffix);
    return unlink(name) == 0;
}

static int has_points(void)
{
    if (strcmp(word, "gated") == 0)
        return exists("open");
    if (strcmp(word, "once") == 0)
        return takes("point");
    return strcmp(word, "never") != 0;
}

static void point(void)
{
    const int result = cr_self_point();
    if (result < 0)
        say("not saved", errno);
    else if (result > 0)
        say("went on", 0);
}

static void *other(void *arg)
{
    while (!exists("end")) {
        point();
        nap();
    }
    return arg;
}

/* Logs the conditions under which it was started. */
static void describe(void)
{
    const mode_t mask = umask(0);
    umask(mask);
    say("umask", (long long)mask);
    int descriptors = 0;
    DIR *list = opendir("/proc/self/fd");
    while (list != NULL && readdir(list) != NULL)
        descriptors++;
    closedir(list);
    say("descriptors", descriptors);
    char line[4200] = "directory ";
    if (getcwd(line + strlen(line), 100) != NULL)
        say(line, 0);
    snprintf(line, sizeof(line), "word %.50s value %.50s of %d", word,
             getenv("SELF_VALUE") ? getenv("SELF_VALUE") : "", getenv("CRYO_SELF") != NULL);
    say(line, 0);
}

/* Below all else. */
static void map_foreign(void)
{
    char name[4096];
    const char *end = strrchr(path, '/');
    snprintf(name, sizeof(name), "%.*s/memfd:cryo-self.%032d", (int)(end - path), path, 0);
    const int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 ||
        mmap((void *)0x10000000, 4096, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
        abort();
    close(fd);
}

/* The child goes on as the program; its parent ends as it does. */
static void go_on_as_child(void)
{
    int status;
    while (!saving)
        nap();
    const pid_t child = fork();
    if (child == 0) {
        say("child", getpid());
        return;
    }
    if (waitpid(child, &status, 0) != child)
        abort();
    _exit(WEXITSTATUS(status));
}

static int is_right(void)
{
    for (unsigned i = 0; i < size; i++) {
        unsigned last = step / size * size + i;
        if (last >= step)
            last -= size;
        if (step > i && table[i] != last + 1)
            return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    path = argv[1];
    word = argc > 2 ? argv[2] : "";
    if (strcmp(word, "large") == 0)
        size = 1000000;
    table = calloc(1000000, sizeof(*table));
    if (strcmp(word, "late") == 0)
        say("ready", 0);
    while (strcmp(word, "late") == 0 && !exists("begin")) {
        if (exists("end"))
            return 3;
        nap();
    }
    if (strcmp(word, "late") == 0 && chdir("/") != 0)
        return 3;
    if (strcmp(word, "maps") == 0)
        map_foreign();
    first = getpid();
    const int back = cr_self_register(save, restore, NULL);
    if (back < 0)
        say("error", errno);
    describe();
    say(back != 0 ? "back" : "ready", step);
    pthread_t threads[3];
    for (int i = 0; i < 3 && strcmp(word, "threads") == 0; i++)
        pthread_create(&threads[i], NULL, other, NULL);
    if (strcmp(word, "forks") == 0) {
        pthread_create(&threads[0], NULL, other, NULL);
        go_on_as_child();
    }
    while (!exists("end")) {
        if (has_points())
            point();
        pthread_mutex_lock(&lock);
        table[step % size] = step + 1;
        step++;
        pthread_mutex_unlock(&lock);
        nap();
    }
    for (int i = 0; i < 3 && strcmp(word, "threads") == 0; i++)
        pthread_join(threads[i], NULL);
    return is_right() ? 7 : 1;
}
