// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page-table walk under SCAN.
 *
 * The kernel does not export its own walkers, so this one is made of inline
 * helpers. What keeps it safe, level by level:
 *
 * - mmap_lock, held for reading, keeps the VMAs. Tables above the lowest level
 *   that serve a VMA are freed only with the VMA, under the lock for writing.
 * - The lowest level may be freed earlier: huge-page collapse and table reclaim
 *   unhook a table under its own lock and free it after an RCU grace period
 *   (before 6.5: under mmap_lock for writing). So the table is looked up inside
 *   rcu_read_lock(), its lock is taken, and the entry that leads to it is read
 *   again under that lock.
 * - Tables of shared hugetlb mappings may belong to several processes and go
 *   away with any of them. They are not walked.
 *
 * Nothing is written, no page is faulted in, no reference is taken: a page is
 * only looked at while the lock of the table that maps it is held.
 */
#include <linux/hugetlb.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/pgtable.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>

#include "classify.h"
#include "compat.h"
#include "walk.h"

/* What is constant while the walk is in one VMA. */
struct area {
	struct vm_area_struct *vma;
	enum cryo_area kind;
	bool soft_dirty;
};

static bool emit(struct cryo_walk *walk, const struct area *area,
		 unsigned long addr, unsigned long end, struct cryo_entry entry)
{
	if (area->soft_dirty)
		entry.soft_dirty = true;
	return cryo_runs_add(walk->runs, addr, (end - addr) >> PAGE_SHIFT,
			     cryo_classify(area->kind, entry.content),
			     cryo_entry_flags(&entry) & walk->want);
}

static struct cryo_entry read_pte(pte_t pte)
{
	struct cryo_entry entry = { .content = CRYO_HOLDS_NOTHING };

	if (pte_none(pte))
		return entry;
	if (!pte_present(pte)) {
		entry.content = cryo_content_of_absent_pte(pte);
		entry.soft_dirty = pte_swp_soft_dirty(pte);
		return entry;
	}
	entry.soft_dirty = pte_soft_dirty(pte);
	if (is_zero_pfn(pte_pfn(pte)))
		entry.content = CRYO_HOLDS_ZERO_PAGE;
	else if (pte_special(pte) || !pfn_valid(pte_pfn(pte)))
		entry.content = CRYO_HOLDS_UNKNOWN;
	else
		entry.content = cryo_content_of_page(pfn_to_page(pte_pfn(pte)));
	return entry;
}

static struct cryo_entry read_huge_pmd(const struct area *area, pmd_t pmd)
{
	struct cryo_entry entry = { .huge = true };

	if (!pmd_present(pmd)) {
		entry.content = cryo_content_of_absent_pmd(pmd);
		entry.soft_dirty = pmd_swp_soft_dirty(pmd);
		return entry;
	}
	entry.soft_dirty = pmd_soft_dirty(pmd);
	if (!pfn_valid(pmd_pfn(pmd)))
		entry.content = CRYO_HOLDS_UNKNOWN;
	else
		entry.content = cryo_content_of_page(pmd_page(pmd));
	/*
	 * There is no exported way to identify the huge zero page. It is the only
	 * non-anonymous page that a huge entry of an anonymous mapping maps.
	 */
	if (entry.content == CRYO_HOLDS_FILE_PAGE && vma_is_anonymous(area->vma))
		entry.content = CRYO_HOLDS_ZERO_PAGE;
	return entry;
}

static struct cryo_entry read_huge_pud(pud_t pud)
{
	struct cryo_entry entry = {
		.content = CRYO_HOLDS_UNKNOWN,
		.huge = true,
	};

	if (pud_present(pud) && pfn_valid(pud_pfn(pud)))
		entry.content = cryo_content_of_page(pud_page(pud));
	return entry;
}

/* One entry that maps [addr, end): emitted whole or not at all. */
static unsigned long emit_whole(struct cryo_walk *walk, const struct area *area,
				unsigned long addr, unsigned long end,
				struct cryo_entry entry)
{
	return emit(walk, area, addr, end, entry) ? end : addr;
}

static unsigned long emit_absent(struct cryo_walk *walk, const struct area *area,
				 unsigned long addr, unsigned long end)
{
	const struct cryo_entry nothing = { .content = CRYO_HOLDS_NOTHING };

	return emit_whole(walk, area, addr, end, nothing);
}

static unsigned long walk_huge_pud(struct cryo_walk *walk, const struct area *area,
				   pud_t *pudp, unsigned long addr,
				   unsigned long end)
{
	spinlock_t *ptl = pud_lockptr(walk->mm, pudp);
	pud_t pud;

	spin_lock(ptl);
	pud = READ_ONCE(*pudp);
	/* Changed meanwhile: the caller retries. */
	if (!pud_none(pud) && (!pud_present(pud) || pud_leaf(pud)))
		addr = emit_whole(walk, area, addr, end, read_huge_pud(pud));
	spin_unlock(ptl);
	return addr;
}

static unsigned long walk_huge_pmd(struct cryo_walk *walk, const struct area *area,
				   pmd_t *pmdp, unsigned long addr,
				   unsigned long end)
{
	spinlock_t *ptl = pmd_lockptr(walk->mm, pmdp);
	pmd_t pmd;

	spin_lock(ptl);
	pmd = READ_ONCE(*pmdp);
	/* Split meanwhile: the caller retries. */
	if (!pmd_none(pmd) && (!pmd_present(pmd) || pmd_trans_huge(pmd)))
		addr = emit_whole(walk, area, addr, end,
				  read_huge_pmd(area, pmd));
	spin_unlock(ptl);
	return addr;
}

static unsigned long walk_ptes(struct cryo_walk *walk, const struct area *area,
			       pmd_t *pmdp, pmd_t pmd, unsigned long addr,
			       unsigned long end)
{
	spinlock_t *ptl = pte_lockptr(walk->mm, &pmd);
	pte_t *ptep;

	spin_lock(ptl);
	if (pmd_val(pmd) != pmd_val(READ_ONCE(*pmdp)))
		goto out_unlock; /* the caller retries */
	ptep = pte_offset_kernel(&pmd, addr);
	for (; addr != end; addr += PAGE_SIZE, ptep++) {
		if (!emit(walk, area, addr, addr + PAGE_SIZE,
			  read_pte(READ_ONCE(*ptep))))
			break;
	}
out_unlock:
	spin_unlock(ptl);
	return addr;
}

static unsigned long walk_pmd(struct cryo_walk *walk, const struct area *area,
			      pud_t *pudp, unsigned long addr, unsigned long end)
{
	const struct cryo_entry unknown = { .content = CRYO_HOLDS_UNKNOWN };
	pmd_t *pmdp = pmd_offset(pudp, addr);
	pmd_t pmd;

	/*
	 * The entry must be read and followed to its table within one RCU
	 * section, so that the table cannot be freed in between.
	 */
	rcu_read_lock();
	pmd = READ_ONCE(*pmdp);
	if (pmd_none(pmd))
		addr = emit_absent(walk, area, addr, end);
	else if (!pmd_present(pmd) || pmd_trans_huge(pmd))
		addr = walk_huge_pmd(walk, area, pmdp, addr, end);
	else if (pmd_bad(pmd))
		addr = emit_whole(walk, area, addr, end, unknown);
	else
		addr = walk_ptes(walk, area, pmdp, pmd, addr, end);
	rcu_read_unlock();
	return addr;
}

/*
 * Descends to the entry that covers @addr and emits what it maps up to @end.
 * Returns the first address not emitted.
 */
static unsigned long walk_step(struct cryo_walk *walk, const struct area *area,
			       unsigned long addr, unsigned long end)
{
	pgd_t *pgdp = pgd_offset(walk->mm, addr);
	p4d_t *p4dp;
	pud_t *pudp;
	pud_t pud;

	if (pgd_none(READ_ONCE(*pgdp)))
		return emit_absent(walk, area, addr, pgd_addr_end(addr, end));

	p4dp = p4d_offset(pgdp, addr);
	if (p4d_none(READ_ONCE(*p4dp)))
		return emit_absent(walk, area, addr, p4d_addr_end(addr, end));

	pudp = pud_offset(p4dp, addr);
	pud = READ_ONCE(*pudp);
	if (pud_none(pud))
		return emit_absent(walk, area, addr, pud_addr_end(addr, end));
	if (!pud_present(pud) || pud_leaf(pud))
		return walk_huge_pud(walk, area, pudp, addr,
				     pud_addr_end(addr, end));

	return walk_pmd(walk, area, pudp, addr, pmd_addr_end(addr, end));
}

/*
 * A private hugetlb mapping of an object without pages of its own is anonymous
 * memory in all but name (MAP_HUGETLB | MAP_ANONYMOUS).
 */
static bool hugetlb_is_anonymous(struct vm_area_struct *vma)
{
	return !READ_ONCE(file_inode(vma->vm_file)->i_mapping->nrpages);
}

static struct area area_of(struct vm_area_struct *vma)
{
	struct area area = {
		.vma = vma,
		.soft_dirty = vma->vm_flags & VM_SOFTDIRTY,
	};

	if (vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP))
		area.kind = CRYO_AREA_SPECIAL;
	else if (vma->vm_flags & VM_MAYSHARE)
		area.kind = CRYO_AREA_SHARED;
	else if (vma_is_anonymous(vma))
		area.kind = CRYO_AREA_ANON;
	else if (!vma->vm_file)
		area.kind = CRYO_AREA_SPECIAL;
	else if (is_vm_hugetlb_page(vma) && hugetlb_is_anonymous(vma))
		area.kind = CRYO_AREA_ANON;
	else
		area.kind = CRYO_AREA_PRIVATE;
	return area;
}

/* Mappings whose page tables say nothing, or are shared with other processes. */
static bool area_is_opaque(const struct area *area)
{
	return area->kind == CRYO_AREA_SPECIAL ||
	       (area->kind == CRYO_AREA_SHARED && is_vm_hugetlb_page(area->vma));
}

static unsigned long walk_area(struct cryo_walk *walk, unsigned long addr,
			       unsigned long end)
{
	struct vm_area_struct *vma = find_vma(walk->mm, addr);
	struct area area;
	unsigned long next;

	if (!vma || vma->vm_start > addr) {
		if (vma && vma->vm_start < end)
			end = vma->vm_start;
		return cryo_runs_add(walk->runs, addr, (end - addr) >> PAGE_SHIFT,
				     CRYO_UNMAPPED, 0) ? end : addr;
	}

	area = area_of(vma);
	end = min(end, vma->vm_end);
	if (area_is_opaque(&area))
		return emit_absent(walk, &area, addr, end);

	while (addr < end && walk->budget) {
		walk->budget--;
		next = walk_step(walk, &area, addr, end);
		if (next == addr && walk->runs->nr == walk->runs->max)
			break;
		addr = next;
	}
	return addr;
}

unsigned long cryo_walk_range(struct cryo_walk *walk, unsigned long addr,
			      unsigned long end)
{
	mmap_assert_locked(walk->mm);

	while (addr < end && walk->budget) {
		unsigned long next;

		walk->budget--;
		next = walk_area(walk, addr, end);
		if (next == addr)
			break;
		addr = next;
	}
	return addr;
}
