/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpointer of your own as a backend of Cryo. `cr_checkpoint --backend NAME`
 * and `cr_restart --backend NAME` load cryo-backend-NAME.so from $CRYO_BACKENDS,
 * or else from the directory cryo/backends beside Cryo's libraries, and call
 * what cryo_backend() returns. A whole plug-in:
 *
 *     static const char *file;
 *     static int set_filename(const char *name) { file = name; return 0; }
 *     static int before_ckpt(int pid) { return 0; }
 *     static int do_ckpt(int pid) { return my_save(pid, file); }
 *     static int restart(int *pid) { return my_restore(file, pid); }
 *     static int after_restart(int pid) { return 0; }
 *     static const struct cryo_backend_ops mine = {CRYO_BACKEND_ABI, sizeof(mine), "mine",
 *         set_filename, before_ckpt, do_ckpt, after_restart, restart};
 *     const struct cryo_backend_ops *cryo_backend(void) { return &mine; }
 *
 * Every function returns 0, or a negative errno. They are called from one thread,
 * in the command's process. A function that is not needed may be NULL.
 */
#ifndef CRYO_BACKEND_H
#define CRYO_BACKEND_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRYO_BACKEND_ABI 1

struct cryo_backend_ops {
    unsigned int abi;  /* CRYO_BACKEND_ABI */
    unsigned int size; /* sizeof(struct cryo_backend_ops): it may grow at its end */
    const char *name;

    /*
     * The image's path, before anything else. It stays valid until the command ends. To save, it
     * is a temporary name beside the image's, which is renamed when do_ckpt() has succeeded.
     */
    int (*set_filename)(const char *file);
    /* The process still runs: prepare what can be prepared. */
    int (*before_ckpt)(int pid);
    /* Save the process. */
    int (*do_ckpt)(int pid);
    /* The process that restart() made is running. */
    int (*after_restart)(int pid);
    /* Restore the process as a child of the caller, and store its pid. */
    int (*restart)(int *pid);
};

/* The one symbol that a plug-in exports. */
const struct cryo_backend_ops *cryo_backend(void);

#ifdef __cplusplus
}
#endif

#endif
