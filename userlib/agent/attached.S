/* SPDX-License-Identifier: Apache-2.0 */
/* Where a thread of a running program enters the agent that cr_checkpoint --attach has mapped. The
 * thread's own stack may be small, so the work is done on another one. %rdi leads to the order.
 */
	.text
	.globl	cryo_attached_entry
	.hidden	cryo_attached_entry
	.type	cryo_attached_entry, @function
cryo_attached_entry:
	movq	%rsp, %rbx
	leaq	cryo_attached_stack_end(%rip), %rsp
	xorl	%ebp, %ebp
	call	cryo_attached_begin
	movq	%rbx, %rsp
	ret				/* to rt_sigreturn, which brings everything back */
	.size	cryo_attached_entry, .-cryo_attached_entry

	.section .bss
	.balign	64
cryo_attached_stack:
	.skip	32768
	.globl	cryo_attached_stack_end
	.hidden	cryo_attached_stack_end
cryo_attached_stack_end:

	.section	.note.GNU-stack, "", @progbits
