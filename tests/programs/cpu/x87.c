// SPDX-License-Identifier: Apache-2.0
// The x87 stack with its full 80 bits, and its control word, of a thread that is computing.
#include "probe.h"

static volatile int holding, released;
static uint16_t control;
static unsigned char registers[8][10];

static void *hold(void *unused)
{
    const uint16_t truncate_double = 0x0e7f;
    __asm__ volatile("fninit\n"
                     "fldcw %[word]\n"
                     "fldz; fld1; fldpi; fldl2e; fldln2; fldlg2; fldl2t; fldpi\n"
                     "movl $1, %[holding]\n"
                     "1: pause\n"
                     "cmpl $0, %[released]\n"
                     "je 1b\n"
                     "fnstcw %[control]\n"
                     "fstpt 0(%[out]); fstpt 10(%[out]); fstpt 20(%[out]); fstpt 30(%[out])\n"
                     "fstpt 40(%[out]); fstpt 50(%[out]); fstpt 60(%[out]); fstpt 70(%[out])\n"
                     "fninit\n"
                     : [holding] "=m"(holding), [control] "=m"(control)
                     : [word] "m"(truncate_double), [released] "m"(released), [out] "r"(registers)
                     : "memory");
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    // The constants' bytes in memory, top of the stack first.
    const unsigned char pi_down[10] = {0x34, 0xc2, 0x68, 0x21, 0xa2, 0xda, 0x0f, 0xc9, 0x00, 0x40};
    const unsigned char one[10] = {0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f};
    do {
        pthread_t thread;
        holding = released = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, hold, NULL));
        probe_await("x87 registers", &holding);
        probe_ready();
        released = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("pi", registers[0][0] ^= 1);
        PROBE_SABOTAGE("control word", control = 0x37f);
        probe_equal("x87 control word", 0x0e7f, control);
        probe_equal_bytes("pi on top of the x87 stack", pi_down, registers[0], 10);
        probe_equal_bytes("pi within the x87 stack", pi_down, registers[5], 10);
        probe_equal_bytes("one within the x87 stack", one, registers[6], 10);
    } while (probe_more());
    return probe_pass();
}
