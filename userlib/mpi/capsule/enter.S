/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that C++ cannot express: the capsule's start on a stack of its own, and entry of a hooked
 * system call. */

	.text

/* const cryo_guest *cryo_capsule_start(void *entry, void *stack): jumps to the capsule's dynamic
 * linker, and returns when its program parks. */
	.globl cryo_capsule_start
	.hidden cryo_capsule_start
	.type cryo_capsule_start, @function
cryo_capsule_start:
	push	%rbp
	push	%rbx
	push	%r12
	push	%r13
	push	%r14
	push	%r15
	mov	%rsp, parked_stack(%rip)
	mov	%rsi, %rsp
	xor	%edx, %edx		/* no function to register with atexit */
	xor	%ebp, %ebp
	jmp	*%rdi
	.size cryo_capsule_start, . - cryo_capsule_start

/* void cryo_capsule_park(const cryo_guest *): returns from cryo_capsule_start, on its stack. */
	.globl cryo_capsule_park
	.hidden cryo_capsule_park
	.type cryo_capsule_park, @function
cryo_capsule_park:
	mov	parked_stack(%rip), %rsp
	mov	%rdi, %rax
	pop	%r15
	pop	%r14
	pop	%r13
	pop	%r12
	pop	%rbx
	pop	%rbp
	ret
	.size cryo_capsule_park, . - cryo_capsule_park

/* A hooked system call: number in %rax, arguments as the kernel takes them. As after a system call,
 * only %rax, %rcx and %r11 have changed. The site's springboard has stepped over the red zone. */
	.globl cryo_capsule_hook
	.hidden cryo_capsule_hook
	.type cryo_capsule_hook, @function
cryo_capsule_hook:
	push	%rbp
	mov	%rsp, %rbp
	push	%r9
	push	%r8
	push	%r10
	push	%rdx
	push	%rsi
	push	%rdi
	mov	%rax, %rdi
	mov	%rsp, %rsi
	and	$-16, %rsp
	call	cryo_capsule_system_call
	lea	-48(%rbp), %rsp
	pop	%rdi
	pop	%rsi
	pop	%rdx
	pop	%r10
	pop	%r8
	pop	%r9
	pop	%rbp
	ret
	.size cryo_capsule_hook, . - cryo_capsule_hook

	.bss
	.balign 8
parked_stack:
	.skip	8

	.section .note.GNU-stack, "", @progbits
