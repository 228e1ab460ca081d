/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels the module is built for. This is the only
 * file that looks at the kernel's version.
 */
#ifndef _CRYO_COMPAT_H
#define _CRYO_COMPAT_H

#include <linux/version.h>
#include <linux/fdtable.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include <linux/uio.h>
#include <net/genetlink.h>

#include "classify.h"

static inline enum cryo_content cryo_content_of_page(struct page *page)
{
	return PageAnon(page) ? CRYO_HOLDS_ANON_PAGE : CRYO_HOLDS_FILE_PAGE;
}

/*
 * Page table entries that are neither empty nor present. Since 6.19 they are
 * read as "soft leaves"; before that as swap entries, among whose types
 * markers changed their meaning several times.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)

#include <linux/leafops.h>

static inline enum cryo_content cryo_content_of_leaf(softleaf_t leaf)
{
	if (softleaf_is_swap(leaf))
		return CRYO_HOLDS_SWAP;
	if (softleaf_is_hwpoison(leaf))
		return CRYO_HOLDS_POISON;
	if (softleaf_is_marker(leaf)) {
		if (softleaf_to_marker(leaf) & PTE_MARKER_GUARD)
			return CRYO_HOLDS_GUARD;
		if (softleaf_to_marker(leaf) & PTE_MARKER_POISONED)
			return CRYO_HOLDS_POISON;
		return CRYO_HOLDS_NOTHING;
	}
	if (softleaf_has_pfn(leaf))
		return cryo_content_of_page(softleaf_to_page(leaf));
	return CRYO_HOLDS_UNKNOWN;
}

#define cryo_content_of_absent_pte(pte) \
	cryo_content_of_leaf(softleaf_from_pte(pte))
#define cryo_content_of_absent_pmd(pmd) \
	cryo_content_of_leaf(softleaf_from_pmd(pmd))

#else

static inline enum cryo_content cryo_content_of_swap_entry(swp_entry_t entry)
{
	if (!non_swap_entry(entry))
		return CRYO_HOLDS_SWAP;
	if (is_hwpoison_entry(entry))
		return CRYO_HOLDS_POISON;
	if (is_pfn_swap_entry(entry))
		return cryo_content_of_page(pfn_swap_entry_to_page(entry));
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	if (is_swapin_error_entry(entry))
		return CRYO_HOLDS_POISON;
#endif
	if (is_pte_marker_entry(entry)) {
#ifdef PTE_MARKER_GUARD
		if (pte_marker_get(entry) & PTE_MARKER_GUARD)
			return CRYO_HOLDS_GUARD;
#endif
#ifdef PTE_MARKER_POISONED
		if (pte_marker_get(entry) & PTE_MARKER_POISONED)
			return CRYO_HOLDS_POISON;
#endif
		return CRYO_HOLDS_NOTHING;
	}
	return CRYO_HOLDS_UNKNOWN;
}

#define cryo_content_of_absent_pte(pte) \
	cryo_content_of_swap_entry(pte_to_swp_entry(pte))
#define cryo_content_of_absent_pmd(pmd) \
	cryo_content_of_swap_entry(pmd_to_swp_entry(pmd))

#endif

/* The addresses that a task has registered with the kernel. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0)
#define cryo_rseq_of(task) ((unsigned long)READ_ONCE((task)->rseq.usrptr))
#define cryo_rseq_len_of(task) READ_ONCE((task)->rseq.len)
#define cryo_rseq_sig_of(task) READ_ONCE((task)->rseq.sig)
#else
#define cryo_rseq_of(task) ((unsigned long)READ_ONCE((task)->rseq))
#define cryo_rseq_sig_of(task) READ_ONCE((task)->rseq_sig)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
#define cryo_rseq_len_of(task) READ_ONCE((task)->rseq_len)
#else
#define cryo_rseq_len_of(task) (cryo_rseq_of(task) ? 32 : 0)
#endif
#endif

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define cryo_robust_list_of(task) \
	((unsigned long)READ_ONCE((task)->futex.robust_list))
#else
#define cryo_robust_list_of(task) \
	((unsigned long)READ_ONCE((task)->robust_list))
#endif

/* Callers hold files->file_lock. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
#define cryo_close_on_exec(fd, files) close_on_exec(fd, files)
#else
#define cryo_close_on_exec(fd, files) close_on_exec(fd, files_fdtable(files))
#endif

/* Since 6.8 vfs_iter_write() itself protects against a freeze
 * of the file system while it writes; before that, its callers
 * did.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define cryo_iter_write(file, iter, pos) vfs_iter_write(file, iter, pos, 0)
#else
static inline ssize_t cryo_iter_write(struct file *file, struct iov_iter *iter,
				      loff_t *pos)
{
	ssize_t n;

	file_start_write(file);
	n = vfs_iter_write(file, iter, pos, 0);
	file_end_write(file);
	return n;
}
#endif

/*
 * Multicast with a filter per receiver came with 6.8. Without it every member
 * of the group receives the events of every user's processes, so joining is
 * then a privilege.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define CRYO_EVENTS_PER_USER 1
#define CRYO_EVENTS_GROUP_FLAGS 0
#define cryo_multicast genlmsg_multicast_netns_filtered
#else
#define CRYO_EVENTS_PER_USER 0
/* From 6.8 as well, but in later stable kernels of older series, too. */
#ifdef GENL_MCAST_CAP_SYS_ADMIN
#define CRYO_EVENTS_GROUP_FLAGS GENL_MCAST_CAP_SYS_ADMIN
#else
#define CRYO_EVENTS_GROUP_FLAGS GENL_UNS_ADMIN_PERM /* CAP_NET_ADMIN */
#endif
#define cryo_multicast(family, net, skb, portid, group, gfp, filter, data) \
	((void)(filter), (void)(data), \
	 genlmsg_multicast_netns(family, net, skb, portid, group, gfp))
#endif

#endif /* _CRYO_COMPAT_H */
