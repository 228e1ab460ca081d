/* SPDX-License-Identifier: Apache-2.0 */
/* Saves and resumes a thread's execution state; and a clone on a stack of its own. */

	.text

/* int cryo_context_save(Context *c): 0 when saved, 1 when the restorer jumps to c->rip. */
	.globl	cryo_context_save
	.hidden	cryo_context_save
	.type	cryo_context_save, @function
cryo_context_save:
	movq	%rbx, 0(%rdi)
	movq	%rbp, 8(%rdi)
	movq	%r12, 16(%rdi)
	movq	%r13, 24(%rdi)
	movq	%r14, 32(%rdi)
	movq	%r15, 40(%rdi)
	leaq	8(%rsp), %rax
	movq	%rax, 48(%rdi)
	movq	(%rsp), %rax
	movq	%rax, 56(%rdi)
	xorl	%eax, %eax
	ret
	.size	cryo_context_save, .-cryo_context_save

/* long cryo_clone(unsigned long flags, void *stack_top, void (*fn)(void *), void *arg)
 * The new task runs fn(arg) on that stack and ends; the caller gets its pid or −errno.
 */
	.globl	cryo_clone
	.hidden	cryo_clone
	.type	cryo_clone, @function
cryo_clone:
	andq	$-16, %rsi
	subq	$16, %rsi
	movq	%rdx, 0(%rsi)
	movq	%rcx, 8(%rsi)
	xorl	%edx, %edx
	xorl	%r10d, %r10d
	xorl	%r8d, %r8d
	movl	$56, %eax		/* clone */
	syscall
	testq	%rax, %rax
	jz	1f
	ret
1:	xorl	%ebp, %ebp
	popq	%rax
	popq	%rdi
	call	*%rax
	xorl	%edi, %edi
	movl	$231, %eax		/* exit_group */
	syscall
	hlt
	.size	cryo_clone, .-cryo_clone

/* long cryo_syscall(long number, long, long, long, long, long, long): the kernel's own result.
 * The number stays in %rbx, where the handler of a checkpoint finds it (interrupted_call.cpp).
 */
	.globl	cryo_syscall
	.hidden	cryo_syscall
	.type	cryo_syscall, @function
cryo_syscall:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset rbx, 0
	movq	%rdi, %rbx
	movq	%rdi, %rax
	movq	%rsi, %rdi
	movq	%rdx, %rsi
	movq	%rcx, %rdx
	movq	%r8, %r10
	movq	%r9, %r8
	movq	16(%rsp), %r9
	syscall
	.globl	cryo_syscall_end
	.hidden	cryo_syscall_end
cryo_syscall_end:
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore rbx
	ret
	.cfi_endproc
	.size	cryo_syscall, .-cryo_syscall

/* The restorer of our signal handlers. Unwinders recognise exactly these bytes. */
	.globl	cryo_signal_return
	.hidden	cryo_signal_return
	.type	cryo_signal_return, @function
	nop
cryo_signal_return:
	movq	$15, %rax		/* rt_sigreturn */
	syscall
	.size	cryo_signal_return, .-cryo_signal_return

	.section	.note.GNU-stack, "", @progbits
