/* SPDX-License-Identifier: Apache-2.0 */
/* syscall(2) in front of the C library's. Calls that may wait are made by cryo_taken_call, so that a
 * checkpoint can resume them, and exec. All others go on to the C library as if nobody had been
 * here, with the stack as it was: some of them return twice, or on another one.
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
