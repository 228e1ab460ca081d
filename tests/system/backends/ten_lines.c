// SPDX-License-Identifier: Apache-2.0
// A complete backend: it "saves" a process by writing its pid, and "restarts" it as a new one.
#include "cryo_backend.h"

#include <stdio.h>
#include <unistd.h>

static const char *file;

static int set_filename(const char *name)
{
    file = name;
    return 0;
}

static int do_ckpt(int pid)
{
    FILE *f = fopen(file, "w");
    return f != NULL && fprintf(f, "%d\n", pid) > 0 && fclose(f) == 0 ? 0 : -5;
}

static int restart(int *pid)
{
    *pid = fork();
    if (*pid == 0)
        execlp("cat", "cat", file, (char *)NULL);
    return *pid < 0 ? -11 : 0;
}

static const struct cryo_backend_ops ops = {
    CRYO_BACKEND_ABI, sizeof(ops), "ten-lines", set_filename, NULL, do_ckpt, NULL, restart};

const struct cryo_backend_ops *cryo_backend(void)
{
    return &ops;
}
