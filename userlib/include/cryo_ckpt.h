/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For MPI programs that decide themselves when they are saved. Link with -lcryo_ckpt,
 * which needs nothing of Cryo to be installed where the program runs; the calls work
 * in a job that was started as `cr_run mpirun ...`, and do nothing in any other.
 *
 *     for (step = ckpt_restarts() ? step : 0; ...; step++) {
 *         work(step);
 *         if (step % 100 == 0)
 *             MPI_Ckpt();
 *     }
 *
 * Snapshots go to where those of ompi-checkpoint go, and ompi-restart brings the
 * program back inside the call. In Fortran:
 *
 *     call MPI_CKPT(ierror)
 *     call GLOBAL_CKPT(ierror)
 *     call CKPT_RESTARTS(count)
 */
#ifndef CRYO_CKPT_H
#define CRYO_CKPT_H

#include "cryo_placement.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CKPT_FAILED = -1, /* nothing was saved; earlier snapshots are as they were */
    CKPT_SAVED = 0,
    CKPT_STRADDLED = 1,  /* see MPI_Ckpt() */
    CKPT_NOT_COVERED = 2 /* this job does not run under Cryo, or is not initialized */
};

/*
 * Saves one version of the whole job. All ranks of MPI_COMM_WORLD call it, in the same order
 * relative to their other calls, as they would MPI_Barrier(); it returns when all ranks'
 * images are taken (they are written while the program goes on), in the restored
 * processes, too. Messages that are sent before and received after it are saved with
 * it. If a message or a collective goes the other way, so that a rank cannot reach its call until
 * another has passed its own, the latter's call returns CKPT_STRADDLED early, and that rank is
 * saved wherever it is when the others have arrived: nothing is lost and no rank waits for
 * ever, but that rank's part of the version is a little later than the program says.
 */
int MPI_Ckpt(void);

/*
 * Requests a checkpoint and returns at once: CKPT_SAVED means requested. Any rank may call
 * it at any moment, and one is enough; simultaneous requests get one checkpoint. Every rank
 * is saved at its next MPI call, or wherever it is.
 */
int global_ckpt(void);

/* How many times this rank has been restored; 0: never. */
int ckpt_restarts(void);

/*
 * Tells where the ranks are, and where they were (cryo_placement.h). It makes no message, and any
 * thread, or a signal handler, may call it. CKPT_SAVED: *placement is filled in. CKPT_NOT_COVERED:
 * there is no such job; all but the size is 0. CKPT_FAILED: the size is none that any release had.
 */
int ckpt_placement(struct cryo_placement *placement);

/*
 * From now on `function` is called in this rank after each restart, with `argument`, before the
 * rank goes on from where it was saved; ckpt_placement() tells of this restart then. That may be
 * in the middle of anything, as in a signal handler: it calls async-signal-safe functions only, and
 * none of MPI. A program usually sets a flag there, and shares out its work anew when it comes to
 * that. At most 16 functions are kept; they are called in the order in which they came.
 * CKPT_SAVED; CKPT_FAILED: there are 16, or it is NULL; CKPT_NOT_COVERED: it will never be called.
 */
int ckpt_on_restart(void (*function)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
