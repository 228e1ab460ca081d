// SPDX-License-Identifier: Apache-2.0
//
// What instructions of classic BPF do with numbers that are known, as the kernel does it.
//
//     state.a = bpf_computed(BPF_OP(step.code), state.a, step.k);
//     state.next += bpf_jumps(BPF_OP(step.code), state.a, step.k) ? step.jt : step.jf;
#pragma once

#include <cstdint>
#include <linux/filter.h>

namespace cryo::capture {

// BPF_NEG has no `b`. Dividing by zero ends the program, which is the caller's matter: 0 here.
constexpr uint32_t bpf_computed(uint16_t operation, uint32_t a, uint32_t b)
{
    constexpr uint32_t shift_bits = 31; // the kernel shifts by what these say
    switch (operation) {
    case BPF_ADD:
        return a + b;
    case BPF_SUB:
        return a - b;
    case BPF_MUL:
        return a * b;
    case BPF_DIV:
        return b != 0 ? a / b : 0;
    case BPF_AND:
        return a & b;
    case BPF_OR:
        return a | b;
    case BPF_XOR:
        return a ^ b;
    case BPF_LSH:
        return a << (b & shift_bits);
    case BPF_RSH:
        return a >> (b & shift_bits);
    default:
        return -a; // BPF_NEG, the only other one that seccomp permits
    }
}

constexpr bool bpf_jumps(uint16_t operation, uint32_t a, uint32_t b)
{
    switch (operation) {
    case BPF_JEQ:
        return a == b;
    case BPF_JGT:
        return a > b;
    case BPF_JGE:
        return a >= b;
    default:
        return (a & b) != 0; // BPF_JSET
    }
}

} // namespace cryo::capture
