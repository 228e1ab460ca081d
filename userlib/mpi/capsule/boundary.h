/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two sides of the capsule tell each other when it is opened. The host is the library in
 * the program; the guest is the small program in the capsule that loads the stock MPI library.
 */
#ifndef CRYO_MPI_CAPSULE_BOUNDARY_H
#define CRYO_MPI_CAPSULE_BOUNDARY_H

#ifdef __cplusplus
extern "C" {
#endif

struct cryo_guest {
    const char *error;                 /* why the library is not there; NULL when it is */
    void *(*symbol)(const char *name); /* an address in the library, or NULL */
    void *(*add_donor)(void);          /* the FS base of a new parked thread, or NULL */
    void (*flush)(void);               /* writes out stdio */
    void (*end)(void);                 /* lets donors go, closes the library, writes out stdio */
    int (*thread_at)(int position);    /* id of a thread started here, 0: none, -1: no more */
    long way_back;                     /* where, relative to the FS base, the host keeps one word */
};

/* The guest finds its address, in hexadecimal, in argv[1]. All of it may be called with the guest's
 * thread-local storage. */
struct cryo_host {
    const char *library;
    void (*park)(const struct cryo_guest *guest);            /* does not return */
    void (*exit)(int status);                                /* the program's exit() */
    long (*system_call)(long number, const long *arguments); /* -errno */
};

#ifdef __cplusplus
}
#endif

#endif
