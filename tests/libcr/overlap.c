/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client whose callback runs a command and waits for its end, three times:
 *
 *     overlap LOG CONTEXT COMMAND
 *
 * CONTEXT is t (THREAD) or s (SIGNAL). COMMAND gets the program's pid as its last word. The log
 * says how it ended before the image, in the continuing program, and in the restored copy. The
 * program ends when LOG.end exists.
 */
#include <libcr.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int log_fd;
static char command[4096];

static void say(const char *text)
{
    if (write(log_fd, text, strlen(text)) != (ssize_t)strlen(text))
        abort();
}

static void run(const char *when)
{
    char line[64];
    char whole[8192];
    snprintf(whole, sizeof(whole), command, (int)getpid());
    const int status = system(whole);
    snprintf(line, sizeof(line), "%s %d\n", when, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    say(line);
}

static int callback(void *arg)
{
    (void)arg;
    run("before");
    const int result = cr_checkpoint(0);
    if (result > 0)
        run("restored");
    else if (result == 0)
        run("after");
    return 0;
}

int main(int argc, char **argv)
{
    char end[4096];
    if (argc != 4)
        return 2;
    snprintf(end, sizeof(end), "%s.end", argv[1]);
    snprintf(command, sizeof(command), "exec %s %%d 2>>%s.why", argv[3], argv[1]);
    log_fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (cr_init() < 0 ||
        cr_register_callback(callback, NULL,
                             argv[2][0] == 't' ? CR_THREAD_CONTEXT : CR_SIGNAL_CONTEXT) < 0)
        return 3;
    say("ready\n");
    const struct timespec moment = {0, 2000000};
    while (access(end, F_OK) != 0)
        nanosleep(&moment, NULL);
    return 0;
}
