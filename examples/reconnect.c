/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that holds what no image can contain, a connection, and takes part in checkpoints: a
 * callback disconnects before the checkpoint and reconnects afterwards, in the continuing program
 * and in the restored copy. The transfer is a critical section: no checkpoint falls into it.
 *
 *     cc reconnect.c $(pkg-config --cflags --libs libcr) -o reconnect
 *     ./reconnect & cr_checkpoint $!; kill -9 $!; cr_restart context.$!
 */
#include <libcr.h>

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int connection[2]; /* both ends are in this process, so that the example needs no peer */

static int dial(void)
{
    return socketpair(AF_UNIX, SOCK_STREAM, 0, connection);
}

static void hang_up(void)
{
    close(connection[0]);
    close(connection[1]);
}

static int callback(void *arg)
{
    (void)arg;
    hang_up();
    const int rc = cr_checkpoint(CR_CHECKPOINT_READY);
    if (rc < 0)
        fprintf(stderr, "no checkpoint: %s\n", cr_strerror(-rc));
    else if (rc > 0)
        printf("back again\n");
    return dial() == 0 ? 0 : 1;
}

int main(void)
{
    const struct timespec second = {1, 0};
    const cr_client_id_t id = cr_init();
    if (id < 0 || cr_register_callback(callback, NULL, CR_THREAD_CONTEXT) < 0 || dial() != 0) {
        perror("reconnect");
        return 1;
    }
    for (int number = 0; number < 1000; number++) {
        char text[32];
        char got[32];
        const int size = snprintf(text, sizeof(text), "message %d", number) + 1;
        cr_enter_cs(id);
        const int passed = write(connection[0], text, (size_t)size) == size &&
                           read(connection[1], got, sizeof(got)) == size;
        cr_leave_cs(id);
        if (!passed || strcmp(text, got) != 0)
            return 1;
        printf("%s\n", got);
        fflush(stdout);
        nanosleep(&second, NULL);
    }
    return 0;
}
