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
