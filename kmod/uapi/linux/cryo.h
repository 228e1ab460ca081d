/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The interface of /dev/cryo: commands by which a program inspects, dumps and
 * restores itself. Every command works on the caller alone, in its own context.
 *
 * Every command takes a pointer to a structure whose first member is its size
 * as the caller knows it. A structure may grow: an older caller's is padded
 * with zeros, a newer caller's is accepted if what the module does not know is
 * zero (E2BIG otherwise). Flags and reserved members must be zero unless
 * documented (EOPNOTSUPP otherwise). Unknown commands give ENOTTY. Under a
 * seccomp filter every command that acts is refused (EPERM); see
 * CRYO_FEATURE_FILTERED. When a command fails its structure is left as it was.
 *
 * docs/module-abi.md describes each command with its errors.
 */
#ifndef _UAPI_LINUX_CRYO_H
#define _UAPI_LINUX_CRYO_H

#include <linux/const.h>
#include <linux/ioctl.h>
#include <linux/types.h>

#define CRYO_DEVICE_NAME "cryo"
#define CRYO_ABI_VERSION 1

#define CRYO_IOCTL_TYPE 0xC8
#define CRYO_CMD_BASE 0x40

enum {
	CRYO_CMD_FEATURES = CRYO_CMD_BASE,
	CRYO_CMD_SCAN,
	CRYO_CMD_EVENT,
	CRYO_CMD_THREADS,
	CRYO_CMD_FILES,
	CRYO_CMD_NEXTPID,
	CRYO_CMD_DUMP,
	CRYO_CMD_RESTORE,
};

/* Bits of cryo_features.features: what this module can do on this kernel. */
#define CRYO_FEATURE_SCAN _BITULL(0)
#define CRYO_FEATURE_SOFT_DIRTY _BITULL(1) /* SCAN reports soft-dirty pages */
#define CRYO_FEATURE_EVENTS _BITULL(2)
/* Any user may join the event group and receives events of its own processes only. */
#define CRYO_FEATURE_EVENTS_PER_USER _BITULL(3)
#define CRYO_FEATURE_THREADS _BITULL(4)
#define CRYO_FEATURE_FILES _BITULL(5)
/* This caller may choose the next pid through this descriptor. */
#define CRYO_FEATURE_NEXTPID _BITULL(6)
#define CRYO_FEATURE_DUMP _BITULL(7)
#define CRYO_FEATURE_RESTORE _BITULL(8)
/*
 * A seccomp filter is on this caller: EVENT, NEXTPID, DUMP and RESTORE, whose
 * bits are then missing, are refused with EPERM.
 */
#define CRYO_FEATURE_FILTERED _BITULL(9)

/**
 * struct cryo_features - ioctl(CRYO_IOC_FEATURES)
 * @size: sizeof(struct cryo_features)
 * @flags: must be 0
 * @abi_version: out: CRYO_ABI_VERSION of the module
 * @page_size: out: bytes in a page; the unit of addresses and counts
 * @features: out: CRYO_FEATURE_* bits
 * @scan_max_runs: out: most runs that one SCAN returns
 * @event_rate: out: most EVENTs per second that one user may announce
 */
struct cryo_features {
	__u32 size;
	__u32 flags;
	__u32 abi_version;
	__u32 page_size;
	__aligned_u64 features;
	__u32 scan_max_runs;
	__u32 event_rate;
};

#define CRYO_IOC_FEATURES _IO(CRYO_IOCTL_TYPE, CRYO_CMD_FEATURES)

/**
 * enum cryo_class - what a page of the caller's memory is
 * @CRYO_UNMAPPED: no mapping there
 * @CRYO_UNTOUCHED: private memory never written or read: reads as zeros
 * @CRYO_ZERO: the zero page is mapped: reads as zeros
 * @CRYO_ANON: private memory with contents of its own
 * @CRYO_FILE: private mapping of a file or memfd: the page is the file's,
 *	unmodified (beyond its end: an access faults)
 * @CRYO_COPIED: private mapping of a file: the page was modified and is the
 *	caller's own now
 * @CRYO_SHARED: shared mapping: the contents belong to the mapped object
 * @CRYO_SPECIAL: provided by the kernel or a device (vdso, vvar, device
 *	memory): not to be read
 * @CRYO_GUARD: a guard page (MADV_GUARD_INSTALL): an access faults
 * @CRYO_POISON: lost to a memory failure: an access gives SIGBUS
 */
enum cryo_class {
	CRYO_UNMAPPED = 0,
	CRYO_UNTOUCHED = 1,
	CRYO_ZERO = 2,
	CRYO_ANON = 3,
	CRYO_FILE = 4,
	CRYO_COPIED = 5,
	CRYO_SHARED = 6,
	CRYO_SPECIAL = 7,
	CRYO_GUARD = 8,
	CRYO_POISON = 9,
};

#define CRYO_PAGE_PRESENT _BITUL(0)    /* has a page in the page table now */
#define CRYO_PAGE_SOFT_DIRTY _BITUL(1) /* written since clear_refs, or new */
#define CRYO_PAGE_HUGE _BITUL(2)       /* mapped by a huge entry */
#define CRYO_PAGE_SWAPPED _BITUL(3)    /* contents lie in swap */
#define CRYO_PAGE_FLAGS 0xfU

/**
 * struct cryo_run - pages in a row that are alike
 * @start: address of the first
 * @npages: how many
 * @page_class: enum cryo_class
 * @flags: those CRYO_PAGE_* bits that were asked for
 * @reserved: 0
 */
struct cryo_run {
	__aligned_u64 start;
	__aligned_u64 npages;
	__u16 page_class;
	__u16 flags;
	__u32 reserved;
};

/**
 * struct cryo_scan - ioctl(CRYO_IOC_SCAN)
 * @size: sizeof(struct cryo_scan)
 * @flags: must be 0
 * @start: first address, a multiple of the page size
 * @end: address behind the last page, a multiple of the page size
 * @runs: address of an array of struct cryo_run
 * @max_runs: its length, at least 1; at most scan_max_runs are used
 * @want: CRYO_PAGE_* bits to report; runs are longer the fewer are wanted
 * @next: out: where the scan stopped; call again from there until it is @end
 * @nr_runs: out: how many runs were filled in
 * @reserved: must be 0
 *
 * The runs follow each other without a gap from @start to @next. A call does a
 * bounded amount of work and returns early when a signal is pending; it always
 * makes progress, unless it fails. EFAULT may leave @runs partly written.
 */
struct cryo_scan {
	__u32 size;
	__u32 flags;
	__aligned_u64 start;
	__aligned_u64 end;
	__aligned_u64 runs;
	__u32 max_runs;
	__u32 want;
	__aligned_u64 next;
	__u32 nr_runs;
	__u32 reserved;
};

#define CRYO_IOC_SCAN _IO(CRYO_IOCTL_TYPE, CRYO_CMD_SCAN)

enum cryo_operation {
	CRYO_OP_CHECKPOINT = 1,
	CRYO_OP_RESTART = 2,
};

enum cryo_phase {
	CRYO_PHASE_STARTED = 1,
	CRYO_PHASE_PROGRESS = 2,
	CRYO_PHASE_FINISHED = 3,
	CRYO_PHASE_FAILED = 4,
};

/**
 * struct cryo_event - ioctl(CRYO_IOC_EVENT)
 * @size: sizeof(struct cryo_event)
 * @flags: must be 0
 * @operation: enum cryo_operation
 * @phase: enum cryo_phase
 * @error: with CRYO_PHASE_FAILED a positive errno, 0 otherwise
 * @reserved: must be 0
 * @bytes_done: bytes processed so far
 * @bytes_total: bytes in all, or 0 if unknown; otherwise at least
 *	 @bytes_done
 * @target: the process that the caller saves or restores, as the caller's pid
 *	namespace numbers it, or 0: the caller itself
 * @reserved2: must be 0
 *
 * Announces what the calling process does to the listeners of the group
 * CRYO_GENL_EVENTS in its network namespace. EAGAIN: the user has announced more
 * than event_rate events in the second that began with its first one; this event
 * is lost. The rate is shared by all ids in user namespaces that the user created.
 */
struct cryo_event {
	__u32 size;
	__u32 flags;
	__u32 operation;
	__u32 phase;
	__u32 error;
	__u32 reserved;
	__aligned_u64 bytes_done;
	__aligned_u64 bytes_total;
	__u32 target;
	__u32 reserved2;
};

#define CRYO_IOC_EVENT _IO(CRYO_IOCTL_TYPE, CRYO_CMD_EVENT)

#define CRYO_THREAD_LEADER _BITUL(0)
#define CRYO_THREAD_EXITING _BITUL(1) /* will not run user code again */

/**
 * struct cryo_thread - what the kernel keeps for one of the caller's threads
 * @tid: in the caller's pid namespace
 * @flags: CRYO_THREAD_* bits
 * @clear_child_tid: address cleared and woken when it exits (set_tid_address)
 * @robust_list: head of its robust futexes (set_robust_list)
 * @rseq: its registered rseq area, 0 if none
 * @rseq_len: length of that area
 * @rseq_sig: signature it was registered with
 * @altstack: alternate signal stack (sigaltstack)
 * @altstack_size: its size
 * @altstack_flags: its SS_* flags as the kernel keeps them
 * @pdeath_signal: signal sent to it when its parent dies
 * @name: its name (comm), terminated by a zero
 */
struct cryo_thread {
	__u32 tid;
	__u32 flags;
	__aligned_u64 clear_child_tid;
	__aligned_u64 robust_list;
	__aligned_u64 rseq;
	__u32 rseq_len;
	__u32 rseq_sig;
	__aligned_u64 altstack;
	__aligned_u64 altstack_size;
	__u32 altstack_flags;
	__u32 pdeath_signal;
	char name[16];
};

/**
 * struct cryo_threads - ioctl(CRYO_IOC_THREADS)
 * @size: sizeof(struct cryo_threads)
 * @flags: must be 0
 * @threads: address of an array of struct cryo_thread
 * @max_threads: its length; 0 asks for the number only
 * @nr_threads: out: how many threads there are; no more than @max_threads of
 *	them were filled in
 *
 * Threads come in the order they were made. Those made or gone during the call
 * may or may not be among them.
 */
struct cryo_threads {
	__u32 size;
	__u32 flags;
	__aligned_u64 threads;
	__u32 max_threads;
	__u32 nr_threads;
};

#define CRYO_IOC_THREADS _IO(CRYO_IOCTL_TYPE, CRYO_CMD_THREADS)

/**
 * struct cryo_file - one descriptor of the caller
 * @fd: its number
 * @same_as: the lowest descriptor that refers to the same open file; @fd itself
 *	if there is no lower one
 * @flags: O_* flags as fcntl(F_GETFL) has them, with O_CLOEXEC if it is set
 * @mode: type and permissions of the inode, as st_mode
 * @pos: file position
 * @dev: device of the file system, encoded as st_dev
 * @rdev: device that the file is, encoded as st_rdev
 * @ino: inode number
 */
struct cryo_file {
	__u32 fd;
	__u32 same_as;
	__u32 flags;
	__u32 mode;
	__s64 pos;
	__aligned_u64 dev;
	__aligned_u64 rdev;
	__aligned_u64 ino;
};

/**
 * struct cryo_files - ioctl(CRYO_IOC_FILES)
 * @size: sizeof(struct cryo_files)
 * @flags: must be 0
 * @files: address of an array of struct cryo_file
 * @max_files: its length; 0 asks for the number only
 * @nr_files: out: how many descriptors are open; no more than @max_files of
 *	them, the lowest, were filled in
 *
 * E2BIG: more than CRYO_FILES_MAX descriptors are open.
 */
struct cryo_files {
	__u32 size;
	__u32 flags;
	__aligned_u64 files;
	__u32 max_files;
	__u32 nr_files;
};

#define CRYO_FILES_MAX 262144

#define CRYO_IOC_FILES _IO(CRYO_IOCTL_TYPE, CRYO_CMD_FILES)

/**
 * struct cryo_nextpid - ioctl(CRYO_IOC_NEXTPID)
 * @size: sizeof(struct cryo_nextpid)
 * @flags: must be 0
 * @pid: the pid that the next new task in the caller's pid namespace gets, if
 *	it is free; at least 2
 * @previous: must be 0; out: what the next new task would have got, or 0 from a
 *	module that does not say so
 *
 * A hint, not a promise: a task started in between takes the pid, and a pid in
 * use is passed over. Make the child, check its pid, and try again if it
 * differs. Then make @previous the next pid: otherwise the next new task gets
 * @pid + 1, an id that a thread of the same program may be about to need.
 *
 * EPERM: the descriptor is not open for writing, and the administrator has not
 * set the module's parameter nextpid_for_all. EXDEV: children of the caller are
 * made in another pid namespace than its own.
 */
struct cryo_nextpid {
	__u32 size;
	__u32 flags;
	__u32 pid;
	__u32 previous;
};

#define CRYO_IOC_NEXTPID _IO(CRYO_IOCTL_TYPE, CRYO_CMD_NEXTPID)

/**
 * struct cryo_range - some of the caller's memory
 * @start: first address, a multiple of the page size
 * @end: address behind the last byte, a multiple of the page size
 */
struct cryo_range {
	__aligned_u64 start;
	__aligned_u64 end;
};

/**
 * struct cryo_dump - ioctl(CRYO_IOC_DUMP)
 * @size: sizeof(struct cryo_dump)
 * @flags: must be 0
 * @ranges: address of an array of struct cryo_range, taken as one sequence of
 *	bytes
 * @nr_ranges: its length
 * @fd: where the bytes go: a regular file, pipe or socket open for writing
 * @offset: where the sequence begins in the file; of no meaning for a pipe or
 *	socket. The descriptor's own position is neither used nor changed.
 * @done: in: how much of the sequence has been written before, 0 at first;
 *	out: how much is written now
 * @reserved: must be 0
 *
 * Writes memory that the caller may read, as write(2) would: no permission,
 * limit or quota is bypassed. Returns early when a signal is pending or
 * something fails after the first byte: call again with @done as returned,
 * until it is the length of the sequence. An error is returned only by a call
 * that wrote nothing.
 */
struct cryo_dump {
	__u32 size;
	__u32 flags;
	__aligned_u64 ranges;
	__u32 nr_ranges;
	__s32 fd;
	__aligned_u64 offset;
	__aligned_u64 done;
	__aligned_u64 reserved;
};

#define CRYO_IOC_DUMP _IO(CRYO_IOCTL_TYPE, CRYO_CMD_DUMP)

#define CRYO_REGION_SHARED _BITUL(0)     /* MAP_SHARED; else MAP_PRIVATE */
#define CRYO_REGION_NORESERVE _BITUL(1)  /* MAP_NORESERVE */
#define CRYO_REGION_GROWSDOWN _BITUL(2)  /* MAP_GROWSDOWN */
#define CRYO_REGION_FLAGS 0x7U

/**
 * struct cryo_region - a mapping to be made
 * @start: first address
 * @end: address behind the last page
 * @offset: where it begins in the file; 0 without a file
 * @fd: the file, or -1 for anonymous memory
 * @reserved: must be 0
 * @prot: PROT_READ, PROT_WRITE, PROT_EXEC
 * @flags: CRYO_REGION_* bits
 */
struct cryo_region {
	__aligned_u64 start;
	__aligned_u64 end;
	__aligned_u64 offset;
	__s32 fd;
	__u32 reserved;
	__u32 prot;
	__u32 flags;
};

/**
 * struct cryo_restore - ioctl(CRYO_IOC_RESTORE)
 * @size: sizeof(struct cryo_restore)
 * @flags: must be 0
 * @keep_start: the memory that stays, whole pages: this structure, the arrays,
 * @keep_end: and the code and the stack of the caller must lie in it
 * @regions: address of an array of struct cryo_region, in ascending order
 * @ranges: address of an array of struct cryo_range: what is to be filled,
 *	taken as one sequence of bytes
 * @nr_regions: length of @regions
 * @nr_ranges: length of @ranges
 * @fd: where the bytes of @ranges come from: a regular file, pipe or socket
 *	open for reading; not used if @nr_ranges is 0
 * @mapped: in: 0; out: how many regions are mapped
 * @offset: where the sequence begins in the file
 * @done: in: 0; out: how much of the sequence is filled in
 * @reserved: must be 0
 *
 * Makes the caller's address space: unmaps everything but the kept memory, maps
 * the regions, and fills the ranges. A malformed set is refused before anything
 * is unmapped. Returns early when a signal is pending or something fails later:
 * call again with @mapped and @done as returned, until they have reached
 * @nr_regions and the length of the sequence; only a call with both at 0
 * unmaps. So a call without ranges only maps, and one with ranges and @mapped as
 * returned fills what has been given advice or a policy meanwhile. An error is
 * returned only by a call that made no progress; if mapping a region failed,
 * @mapped is its index.
 */
struct cryo_restore {
	__u32 size;
	__u32 flags;
	__aligned_u64 keep_start;
	__aligned_u64 keep_end;
	__aligned_u64 regions;
	__aligned_u64 ranges;
	__u32 nr_regions;
	__u32 nr_ranges;
	__s32 fd;
	__u32 mapped;
	__aligned_u64 offset;
	__aligned_u64 done;
	__aligned_u64 reserved;
};

#define CRYO_IOC_RESTORE _IO(CRYO_IOCTL_TYPE, CRYO_CMD_RESTORE)

/* The generic netlink family, its multicast group and its one message. */
#define CRYO_GENL_NAME "cryo"
#define CRYO_GENL_VERSION 1
#define CRYO_GENL_EVENTS "events"

enum {
	CRYO_GENL_CMD_UNSPEC = 0,
	CRYO_GENL_CMD_EVENT = 1,
};

/**
 * enum cryo_event_attr - attributes of CRYO_GENL_CMD_EVENT
 * @CRYO_EVENT_A_UNSPEC: not used
 * @CRYO_EVENT_A_PAD: alignment
 * @CRYO_EVENT_A_PID: u32: the process, as its own pid namespace numbers it
 * @CRYO_EVENT_A_PIDNS: u64: inode of that namespace (/proc/self/ns/pid)
 * @CRYO_EVENT_A_OPERATION: u32: enum cryo_operation
 * @CRYO_EVENT_A_PHASE: u32: enum cryo_phase
 * @CRYO_EVENT_A_ERROR: u32: errno of a failure
 * @CRYO_EVENT_A_BYTES_DONE: u64
 * @CRYO_EVENT_A_BYTES_TOTAL: u64
 * @CRYO_EVENT_A_TARGET: u32: the process that CRYO_EVENT_A_PID claims to save
 *	 or restore; 0: itself
 * @__CRYO_EVENT_A_MAX: one more than the last
 */
enum cryo_event_attr {
	CRYO_EVENT_A_UNSPEC,
	CRYO_EVENT_A_PAD,
	CRYO_EVENT_A_PID,
	CRYO_EVENT_A_PIDNS,
	CRYO_EVENT_A_OPERATION,
	CRYO_EVENT_A_PHASE,
	CRYO_EVENT_A_ERROR,
	CRYO_EVENT_A_BYTES_DONE,
	CRYO_EVENT_A_BYTES_TOTAL,
	CRYO_EVENT_A_TARGET,
	__CRYO_EVENT_A_MAX,
};

#define CRYO_EVENT_A_MAX (__CRYO_EVENT_A_MAX - 1)

#endif /* _UAPI_LINUX_CRYO_H */
