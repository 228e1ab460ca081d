// SPDX-License-Identifier: Apache-2.0
// Every general register, the direction flag and the red zone of a thread that is computing.
#include "probe.h"

// Read and written by the assembly below.
extern volatile int holding, released;
extern uint64_t found[18];
volatile int holding, released;
uint64_t found[18];

void hold_registers(void);

// found[i] is register i in the order below, found[16] the red zone, found[17] the flags.
__asm__(".text\n"
        "hold_registers:\n"
        "  push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "  mov $0x1010101010101010, %rax; mov %rax, -64(%rsp)\n"
        "  mov $0x0101010101010100, %rax; mov $0x0101010101010101, %rbx\n"
        "  mov $0x0101010101010102, %rcx; mov $0x0101010101010103, %rdx\n"
        "  mov $0x0101010101010104, %rsi; mov $0x0101010101010105, %rdi\n"
        "  mov $0x0101010101010106, %rbp\n"
        "  mov $0x0101010101010108, %r8;  mov $0x0101010101010109, %r9\n"
        "  mov $0x010101010101010a, %r10; mov $0x010101010101010b, %r11\n"
        "  mov $0x010101010101010c, %r12; mov $0x010101010101010d, %r13\n"
        "  mov $0x010101010101010e, %r14; mov $0x010101010101010f, %r15\n"
        "  std\n"
        "  movl $1, holding(%rip)\n"
        "1: pause\n"
        "  cmpl $0, released(%rip)\n"
        "  je 1b\n"
        "  mov %rax, found+0(%rip);   mov %rbx, found+8(%rip)\n"
        "  mov %rcx, found+16(%rip);  mov %rdx, found+24(%rip)\n"
        "  mov %rsi, found+32(%rip);  mov %rdi, found+40(%rip)\n"
        "  mov %rbp, found+48(%rip);  mov %rsp, found+56(%rip)\n"
        "  mov %r8, found+64(%rip);   mov %r9, found+72(%rip)\n"
        "  mov %r10, found+80(%rip);  mov %r11, found+88(%rip)\n"
        "  mov %r12, found+96(%rip);  mov %r13, found+104(%rip)\n"
        "  mov %r14, found+112(%rip); mov %r15, found+120(%rip)\n"
        "  mov -64(%rsp), %rax; mov %rax, found+128(%rip)\n"
        "  lea -128(%rsp), %rsp\n"
        "  pushfq; popq found+136(%rip)\n"
        "  lea 128(%rsp), %rsp\n"
        "  cld\n"
        "  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "  ret\n");

static void *hold(void *unused)
{
    hold_registers();
    return unused;
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const char *names[] = {"rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp",
                           "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
    do {
        pthread_t thread;
        holding = released = 0;
        PROBE_ZERO(pthread_create(&thread, NULL, hold, NULL));
        probe_await("registers", &holding);
        probe_ready();
        released = 1;
        PROBE_ZERO(pthread_join(thread, NULL));
        PROBE_SABOTAGE("r9", found[9] ^= 1);
        PROBE_SABOTAGE("red zone", found[16] ^= 1);
        PROBE_SABOTAGE("direction flag", found[17] &= ~0x400ul);
        for (unsigned i = 0; i < 16; i++) {
            if (i != 7) { // the stack pointer is whatever it is
                probe_equal(names[i], (long long)(0x0101010101010100u + i), (long long)found[i]);
            }
        }
        probe_equal("red zone", 0x1010101010101010, (long long)found[16]);
        probe_equal("direction flag", 0x400, (long long)(found[17] & 0x400));
    } while (probe_more());
    return probe_pass();
}
