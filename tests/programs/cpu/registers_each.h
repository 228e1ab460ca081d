// SPDX-License-Identifier: Apache-2.0
// For inline assembly that treats each of sixteen vector registers alike. Registers and memory of
// single programs do not belong here.
#ifndef CRYO_TESTS_PROGRAMS_CPU_REGISTERS_EACH_H
#define CRYO_TESTS_PROGRAMS_CPU_REGISTERS_EACH_H

#define EACH(do)                                                                                   \
    do                                                                                             \
    (0) do(1) do(2) do(3) do(4) do(5) do(6) do(7) do(8) do(9) do(10) do(11) do(12) do(13) do(      \
        14) do(15)

// xmm0 to xmm15, from and to an array.
#define LOAD_XMM(i) "movups " #i "*16(%[in]), %%xmm" #i "\n"
#define STORE_XMM(i) "movups %%xmm" #i ", " #i "*16(%[out])\n"

#endif
