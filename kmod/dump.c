// SPDX-License-Identifier: GPL-2.0-only
/*
 * DUMP: pages of the caller's own memory into a file, a pipe or a socket.
 *
 * The pages are taken by reference, a batch at a time, and passed to the file's
 * own write method: one copy, the one into the page cache. A plain reference
 * (FOLL_GET, not FOLL_PIN) never unshares a page, so a frozen copy made by
 * fork() does not grow. Only memory that the caller may read is taken; what
 * write(2) would refuse is refused here by the same code.
 */
#include <linux/bvec.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "bounds.h"
#include "compat.h"
#include "module.h"
#include "ranges.h"

#define BATCH 256

struct batch {
	struct page *pages[BATCH];
	struct bio_vec pieces[BATCH];
	unsigned int nr;
	size_t bytes;
};

static void drop(struct batch *batch)
{
	release_pages(batch->pages, batch->nr);
	batch->nr = 0;
	batch->bytes = 0;
}

/* Takes pages of the current range, as many as fit. */
static int take_range(struct batch *batch, struct cryo_ranges *ranges)
{
	unsigned int offset = offset_in_page(ranges->at);
	unsigned long start = ranges->at - offset;
	unsigned int want = min_t(u64, BATCH - batch->nr,
				  (ranges->end - start) >> PAGE_SHIFT);
	int got = get_user_pages_fast(start, want, 0, batch->pages + batch->nr);
	int i;

	if (got <= 0)
		return got ? got : -EFAULT;
	for (i = 0; i < got; i++) {
		struct bio_vec *piece = &batch->pieces[batch->nr];

		piece->bv_page = batch->pages[batch->nr++];
		piece->bv_offset = offset;
		piece->bv_len = PAGE_SIZE - offset;
		batch->bytes += piece->bv_len;
		ranges->at += piece->bv_len;
		offset = 0;
	}
	return 0;
}

/*
 * Fills the batch. An error in a range is reported only once everything before
 * it has been written: until then the batch is passed on as it is.
 */
static int take(struct batch *batch, struct cryo_ranges *ranges)
{
	while (batch->nr < BATCH) {
		int rc = cryo_ranges_next(ranges);

		if (rc > 0)
			rc = take_range(batch, ranges);
		else if (!rc)
			break;
		if (rc < 0)
			return batch->nr ? 0 : rc;
	}
	return 0;
}

/* Writes the batch. Adds what was written to @done, even on failure. */
static int put(struct batch *batch, struct file *file, u64 offset, u64 *done)
{
	struct iov_iter iter;

	iov_iter_bvec(&iter, ITER_SOURCE, batch->pieces, batch->nr,
		      batch->bytes);
	while (iov_iter_count(&iter)) {
		loff_t pos = cryo_position(file, offset, *done);
		ssize_t n = cryo_iter_write(file, &iter, &pos);

		if (n <= 0)
			return n ? cryo_plain_error(n) : -EIO;
		*done += n;
	}
	return 0;
}

static int dump(struct cryo_dump *cmd, struct file *file, struct batch *batch)
{
	struct cryo_ranges ranges = {
		.list = u64_to_user_ptr(cmd->ranges),
		.left = cmd->nr_ranges,
	};
	int rc;

	rc = cryo_ranges_skip(&ranges, cmd->done);
	while (!rc) {
		rc = take(batch, &ranges);
		if (rc || !batch->nr)
			break;
		if (batch->bytes > S64_MAX - cmd->offset - cmd->done)
			rc = -EFBIG;
		else
			rc = put(batch, file, cmd->offset, &cmd->done);
		drop(batch);
		if (!rc && signal_pending(current))
			rc = -EINTR;
		cond_resched();
	}
	drop(batch);
	return rc;
}

int cryo_dump(struct cryo_ucmd *ucmd)
{
	struct cryo_dump *cmd = ucmd->cmd;
	struct batch *batch;
	struct file *file;
	u64 before = cmd->done;
	int rc;

	rc = cryo_check_dump(cmd);
	if (rc)
		return rc;
	file = cryo_get_file(cmd->fd);
	if (IS_ERR(file))
		return PTR_ERR(file);
	batch = kzalloc(sizeof(*batch), GFP_KERNEL_ACCOUNT);
	if (!batch) {
		rc = -ENOMEM;
		goto put_file;
	}
	rc = dump(cmd, file, batch);
	kfree(batch);
	/* Partial progress counts as success; the next call meets the error again. */
	if (!rc || cmd->done != before)
		rc = cryo_ucmd_respond(ucmd, sizeof(*cmd));
put_file:
	fput(file);
	return rc;
}
