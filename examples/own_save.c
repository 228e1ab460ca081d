/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that saves itself, since it knows that a few bytes are all it needs. It adds up the
 * inverse squares, and is saved between two terms.
 *
 *     cc own_save.c $(pkg-config --cflags --libs libcr) -o own_save
 *     ./own_save & cr_checkpoint --backend=self --kill $!; cr_restart context.$!
 */
#include <libcr.h>

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct state {
    long long term;
    double sum;
};

static int save(int fd, void *arg)
{
    return write(fd, arg, sizeof(struct state)) == sizeof(struct state) ? 0 : EIO;
}

static int restore(int fd, void *arg)
{
    return read(fd, arg, sizeof(struct state)) == sizeof(struct state) ? 0 : EIO;
}

int main(void)
{
    struct state state = {1, 0};
    const int back = cr_self_register(save, restore, &state);
    if (back < 0) {
        perror("own_save");
        return 1;
    }
    if (back > 0)
        printf("back at term %lld\n", state.term);
    for (; state.term <= 20000000000; state.term++) {
        cr_self_point();
        state.sum += 1.0 / ((double)state.term * (double)state.term);
    }
    printf("%.12f\n", state.sum);
    return 0;
}
