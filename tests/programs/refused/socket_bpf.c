// SPDX-License-Identifier: Apache-2.0
// A socket with a filter that is an eBPF program (SO_ATTACH_BPF), which the kernel does not show.
#include "probe.h"

#include <linux/bpf.h>
#include <sys/socket.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    // r0 = 0; exit: drops everything.
    const struct bpf_insn instructions[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K},
                                            {.code = BPF_JMP | BPF_EXIT}};
    union bpf_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    attributes.insn_cnt = 2;
    attributes.insns = (uintptr_t)instructions;
    attributes.license = (uintptr_t) "";
    const int program =
        (int)PROBE_TRY(syscall(SYS_bpf, BPF_PROG_LOAD, &attributes, sizeof attributes));
    int ends[2];
    PROBE_TRY(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends));
    PROBE_TRY(setsockopt(ends[0], SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof program));
    PROBE_TRY(close(program));
    do {
        probe_ready();
        PROBE_SABOTAGE("filter", setsockopt(ends[0], SOL_SOCKET, SO_DETACH_BPF, &(int){0}, 4));
        char got[8];
        PROBE_TRY(send(ends[1], "hello", 5, 0));
        probe_equal("what the filter lets through", -1,
                    recv(ends[0], got, sizeof got, MSG_DONTWAIT));
    } while (probe_more());
    return probe_pass();
}
