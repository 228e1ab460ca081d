/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the ranks of a restarted MPI job are, and where they were when the job was saved: what
 * ckpt_placement() of cryo_ckpt.h and cr_placement() of libcr.h tell.
 *
 *     struct cryo_placement at = {.size = sizeof(at)};
 *     if (ckpt_placement(&at) == CKPT_SAVED && at.restarts > 0)
 *         printf("rank 0 was on %s, and is on %s\n", at.names_before[at.node_before[0]],
 *                at.names[at.node_of[0]]);
 */
#ifndef CRYO_PLACEMENT_H
#define CRYO_PLACEMENT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The caller sets `size`. Later releases add members at the end: those that the caller does not
 * have are left out, and those that this release does not know are set to 0.
 *
 * Before the first restart nodes and nodes_before are 0, and the arrays NULL. What arrays point to
 * stays as it is until the process ends, also across further restarts, so it may be used while the
 * rank is saved and brought back; the next call tells of the last restart.
 */
struct cryo_placement {
    size_t size;              /* sizeof(struct cryo_placement) */
    int restarts;             /* how many times this rank has been restored */
    int ranks;                /* of MPI_COMM_WORLD; as many elements have node_of and node_before */
    int nodes;                /* on which they are now; as many elements have names and weights */
    int nodes_before;         /* on which they were; as many elements has names_before */
    const int *node_of;       /* of each rank: an index of names */
    const int *node_before;   /* of each rank: an index of names_before */
    const char *const *names; /* of nodes: in the order of their lowest ranks */
    const char *const *names_before; /* likewise */
    /* What `ompi-restart --weights` said of each node now; NULL: this restart was without it. */
    const unsigned long *weights;
};

#ifdef __cplusplus
}
#endif

#endif
