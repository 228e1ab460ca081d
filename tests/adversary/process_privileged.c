/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that any user may start and that then has more rights than the user: setuid, or with
 * file capabilities. It does what programs with libcr do, and prints the results:
 *
 *     secure 1
 *     init 2356          errno of cr_init(), 0 on success
 *     request 2356       of cr_request_checkpoint() for itself
 *     register 2356      of cr_self_register()
 *     caught 0           signals that it catches, as in /proc/self/status
 *     descriptors 3      its open descriptors
 */
#include <dirent.h>
#include <errno.h>
#include <libcr.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static int nothing(int fd, void *arg)
{
    (void)fd;
    (void)arg;
    return 0;
}

static int error_of(int result)
{
    return result < 0 ? errno : 0;
}

static void tell_caught(void)
{
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        if (strncmp(line, "SigCgt:", 7) == 0)
            printf("caught %s", line + 8);
    }
    if (status != NULL)
        fclose(status);
}

static void tell_descriptors(void)
{
    int count = -3; /* . and .., and the directory's own descriptor */
    DIR *all = opendir("/proc/self/fd");
    while (all != NULL && readdir(all) != NULL)
        count++;
    printf("descriptors %d\n", count);
    if (all != NULL)
        closedir(all);
}

int main(void)
{
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle;
    printf("secure %lu\n", getauxval(AT_SECURE));
    printf("init %d\n", error_of(cr_init()));
    cr_initialize_checkpoint_args_t(&args);
    const int requested = cr_request_checkpoint(&args, &handle);
    printf("request %d\n", error_of(requested));
    if (requested >= 0)
        cr_wait_checkpoint(&handle, NULL);
    printf("register %d\n", error_of(cr_self_register(nothing, nothing, NULL)));
    tell_caught();
    tell_descriptors();
    return 0;
}
