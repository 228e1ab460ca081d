// SPDX-License-Identifier: GPL-2.0-only
/*
 * FILES: the caller's descriptor table, with what /proc does not show: which
 * descriptors share one open file.
 *
 * The table is read under files->file_lock, where nothing may sleep, into
 * memory that was allocated before: count, allocate, read, and start over
 * if it has grown meanwhile. No file is kept or touched after the lock is
 * released; addresses of open files are only compared. The lock is held for
 * the whole table, as fork() holds it: addresses identify open files only
 * as
 */
#include <linux/fdtable.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "bounds.h"
#include "compat.h"
#include "module.h"
#include "sharing.h"

/* How often a table that grows while it is read is tried again. */
#define ATTEMPTS 8
/* Descriptors that may be opened between counting and reading. */
#define HEADROOM 16

struct table {
	struct cryo_fd *fds; /* the lowest, in ascending order */
	u32 nr;              /* open descriptors, including those that did not fit */
	u32 max;             /* length of fds */
};

/* Called by iterate_fd() under files->file_lock. */
static int take(const void *data, struct file *file, unsigned int fd)
{
	struct table *table = (struct table *)data;
	struct inode *inode = file_inode(file);
	u32 flags = READ_ONCE(file->f_flags);

	lockdep_assert_held(&current->files->file_lock);

	if (table->nr++ >= table->max)
		return 0;
	if (cryo_close_on_exec(fd, current->files))
		flags |= O_CLOEXEC;
	table->fds[table->nr - 1] = (struct cryo_fd){
		.key = (unsigned long)file,
		.file = {
			.fd = fd,
			.flags = flags,
			.mode = READ_ONCE(inode->i_mode),
			.pos = READ_ONCE(file->f_pos),
			.dev = new_encode_dev(inode->i_sb->s_dev),
			.rdev = new_encode_dev(inode->i_rdev),
			.ino = inode->i_ino,
		},
	};
	return 0;
}

/* Reads the @wanted lowest descriptors. */
static int read_table(struct table *table, u32 wanted)
{
	unsigned int attempt;

	for (attempt = 0; attempt < ATTEMPTS; attempt++) {
		*table = (struct table){};
		iterate_fd(current->files, 0, take, table);
		if (table->nr > CRYO_FILES_MAX)
			return -E2BIG;

		table->max = min(table->nr + HEADROOM, wanted);
		table->fds = kvmalloc_array(max(table->max, 1U),
					    sizeof(*table->fds),
					    GFP_KERNEL_ACCOUNT);
		if (!table->fds)
			return -ENOMEM;
		table->nr = 0;
		iterate_fd(current->files, 0, take, table);
		if (table->nr <= table->max || table->max == wanted)
			return 0;
		kvfree(table->fds);
	}
	return -EAGAIN;
}

static int find_shared(const struct table *table, u32 nr)
{
	u32 *order = kvmalloc_array(max(nr, 1U), 2 * sizeof(*order),
				    GFP_KERNEL_ACCOUNT);

	if (!order)
		return -ENOMEM;
	cryo_find_shared(table->fds, nr, order, order + nr);
	kvfree(order);
	return 0;
}

static int deliver(const struct table *table, u32 nr,
		   struct cryo_file __user *to)
{
	u32 i;

	for (i = 0; i < nr; i++) {
		if (copy_to_user(to + i, &table->fds[i].file, sizeof(*to)))
			return -EFAULT;
		cond_resched();
	}
	return 0;
}

int cryo_files(struct cryo_ucmd *ucmd)
{
	struct cryo_files *cmd = ucmd->cmd;
	struct table table;
	u32 nr;
	int rc;

	rc = cryo_check_files(cmd);
	if (rc)
		return rc;
	rc = read_table(&table, cmd->max_files);
	if (rc)
		return rc;
	nr = min(table.nr, table.max);
	rc = find_shared(&table, nr);
	if (!rc)
		rc = deliver(&table, nr, u64_to_user_ptr(cmd->files));
	kvfree(table.fds);
	if (rc)
		return rc;

	cmd->nr_files = table.nr;
	return cryo_ucmd_respond(ucmd, sizeof(*cmd));
}
