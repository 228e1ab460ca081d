/* SPDX-License-Identifier: Apache-2.0
 *
 * How the two sides of the capsule find each other when it is opened. The host is the library in
 * the program; the guest is the small program in the capsule that loads the stock MPI library.
 */
#ifndef CRYO_MPI_CAPSULE_BOUNDARY_H
#define CRYO_MPI_CAPSULE_BOUNDARY_H

#ifdef __cplusplus
extern "C" {
#endif

struct cryo_guest {
    const char *error;                 /* why the library could not be loaded; NULL if it was */
    void *(*symbol)(const char *name); /* address of a library symbol, or NULL */
    void *(*add_donor)(void);          /* the FS base of a new parked thread, or NULL */
    void (*flush)(void);               /* flushes stdio */
    void (*end)(void);                 /* ends donors, closes the library, flushes stdio */
    int (*thread_at)(int position);    /* thread id in this slot, 0: empty, -1: past the end */
    long way_back;                     /* offset from the FS base of a word reserved for the host */
};

/* The guest gets the address of this struct, in hexadecimal, in argv[1]. All functions may be
 * called with the guest's thread-local storage. */
struct cryo_host {
    const char *library;
    void (*park)(const struct cryo_guest *guest);            /* does not return */
    void (*exit)(int status);                                /* the program's exit() */
    void (*gives_up)(void);                                  /* the library is about to end it */
    long (*system_call)(long number, const long *arguments); /* returns -errno on failure */
};

#ifdef __cplusplus
}
#endif

#endif
