/* SPDX-License-Identifier: Apache-2.0 */
/* Interposes the C library's syscall(2). Calls that may wait are made by cryo_taken_call, so that a
 * checkpoint can resume them, as are others that it lists, such as exec. The rest are passed to the
 * C library with the stack unchanged: some of them return twice, or on another stack.
 */

	.text
	.globl	syscall
	.type	syscall, @function
syscall:
	cmpq	$511, %rdi
	ja	1f
	leaq	cryo_taken_calls(%rip), %rax
	btq	%rdi, (%rax)
	jc	cryo_taken_call
1:	movq	cryo_real_syscall(%rip), %rax
	testq	%rax, %rax
	jz	cryo_taken_call
	jmp	*%rax
	.size	syscall, .-syscall

	.section .note.GNU-stack,"",@progbits
