/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shared by the files of the module: a command on its way through the
 * dispatcher, and the functions that carry out the commands.
 */
#ifndef _CRYO_MODULE_H
#define _CRYO_MODULE_H

#include <linux/fs.h>
#include <linux/types.h>
#include <linux/cryo.h>

/**
 * struct cryo_ucmd - one ioctl
 * @file: the descriptor it came through
 * @ubuffer: the caller's structure
 * @user_size: how much of it the caller knows
 * @cmd: the kernel's copy, padded with zeros to what the module knows
 */
struct cryo_ucmd {
	struct file *file;
	void __user *ubuffer;
	u32 user_size;
	void *cmd;
};

/* Copies the kernel's copy back, as much of it as the caller knows. */
int cryo_ucmd_respond(struct cryo_ucmd *ucmd, size_t size);

int cryo_features(struct cryo_ucmd *ucmd);
int cryo_scan(struct cryo_ucmd *ucmd);
int cryo_event(struct cryo_ucmd *ucmd);
int cryo_threads(struct cryo_ucmd *ucmd);
int cryo_files(struct cryo_ucmd *ucmd);
int cryo_nextpid(struct cryo_ucmd *ucmd);
int cryo_dump(struct cryo_ucmd *ucmd);
int cryo_restore(struct cryo_ucmd *ucmd);

/*
 * The table of commands, for main.c: IOCTL_OP(NAME, feature, kind, name, last)
 * is the ioctl CRYO_IOC_NAME on a struct cryo_name, which cryo_name() carries
 * out. @feature is the bit by which FEATURES tells of it, @last the structure's
 * last member when the command was new. A command that ASKS only tells the
 * caller about itself; one that ACTS does something that other system calls
 * also do (write, mmap, clone3, a socket's sendmsg), and is refused to a caller
 * under a seccomp filter.
 */
#define CRYO_COMMANDS {							\
	IOCTL_OP(FEATURES, 0, ASKS, features, event_rate),		\
	IOCTL_OP(SCAN, CRYO_FEATURE_SCAN, ASKS, scan, reserved),	\
	IOCTL_OP(EVENT, CRYO_FEATURE_EVENTS, ACTS, event, bytes_total),	\
	IOCTL_OP(THREADS, CRYO_FEATURE_THREADS, ASKS, threads, nr_threads),\
	IOCTL_OP(FILES, CRYO_FEATURE_FILES, ASKS, files, nr_files),	\
	IOCTL_OP(NEXTPID, CRYO_FEATURE_NEXTPID, ACTS, nextpid, previous),\
	IOCTL_OP(DUMP, CRYO_FEATURE_DUMP, ACTS, dump, reserved),	\
	IOCTL_OP(RESTORE, CRYO_FEATURE_RESTORE, ACTS, restore, reserved),\
}

/* Whether the caller is under a seccomp filter: then it may query, not act. */
bool cryo_is_filtered(void);

/* Whether the next pid may be chosen through @file. */
bool cryo_may_choose_pid(struct file *file);

/* Most runs one SCAN returns, and most events a second for one user. */
#define CRYO_SCAN_MAX_RUNS 65536
#define CRYO_EVENT_RATE 100

int cryo_events_register(void);
void cryo_events_unregister(void);

#endif /* _CRYO_MODULE_H */
