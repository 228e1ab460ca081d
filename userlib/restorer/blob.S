/* SPDX-License-Identifier: Apache-2.0 */
/* The restorer's flat binary, carried inside the preloaded library. */
	.section .rodata
	.balign	16
	.globl	cryo_restorer_begin, cryo_restorer_end
	.hidden	cryo_restorer_begin, cryo_restorer_end
cryo_restorer_begin:
	.incbin	"restorer.bin"
cryo_restorer_end:
	.section .note.GNU-stack, "", @progbits
