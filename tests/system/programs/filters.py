# SPDX-License-Identifier: Apache-2.0
"""Filters of system calls (seccomp) on x86-64, as surroundings put them on a program.

    subprocess.run(words, preexec_fn=filters.put_on({filters.KCMP: errno.EPERM}))
"""
import ctypes
import errno
import struct

KCMP, FCNTL = 312, 72
KILL = -1
F_DUPFD_QUERY = 1027  # since Linux 6.10
# What the usual profiles of containers (containers-common, Docker's) forbid a process without
# privileges, as they do it, and what Cryo can use.
CONTAINER = {
    135: errno.EPERM,   # personality
    165: errno.EPERM,   # mount
    166: errno.EPERM,   # umount2
    248: errno.EPERM,   # add_key
    249: errno.EPERM,   # request_key
    250: errno.EPERM,   # keyctl
    272: errno.EPERM,   # unshare
    278: errno.EPERM,   # vmsplice
    298: errno.EPERM,   # perf_event_open
    304: errno.EPERM,   # open_by_handle_at
    308: errno.EPERM,   # setns
    KCMP: errno.EPERM,
    321: errno.EPERM,   # bpf
    323: errno.EPERM,   # userfaultfd
    425: errno.ENOSYS,  # io_uring_setup
    426: errno.ENOSYS,  # io_uring_enter
    427: errno.ENOSYS,  # io_uring_register
    435: errno.ENOSYS,  # clone3
    440: errno.EPERM,   # process_madvise
}

LOAD, JUMP_IF_EQUAL, GIVE = 0x20, 0x15, 0x06
ALLOW, FAIL, END_PROCESS = 0x7fff0000, 0x00050000, 0x80000000
# offsets in struct seccomp_data
NUMBER, FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT = 0, 16, 24, 32


def put_on(rules, without_query=False, on_all=False, no_new_privileges=True, by_prctl=False):
    """For preexec_fn. `rules`: the error of a call's number, or KILL. `without_query`: fcntl() tells
    as little of open files as before Linux 6.10. `on_all`: threads. `by_prctl`: not by seccomp()."""
    code = [(LOAD, 0, 0, NUMBER)]
    for number, answer in rules.items():
        code += [(JUMP_IF_EQUAL, 0, 1, number),
                 (GIVE, 0, 0, END_PROCESS if answer == KILL else FAIL | answer)]
    if without_query:
        code += [(JUMP_IF_EQUAL, 0, 3, FCNTL), (LOAD, 0, 0, SECOND_ARGUMENT),
                 (JUMP_IF_EQUAL, 0, 1, F_DUPFD_QUERY), (GIVE, 0, 0, FAIL | errno.EINVAL)]
    code.append((GIVE, 0, 0, ALLOW))
    return _putting_on(code, on_all, no_new_privileges, by_prctl)


def skip_when(call, first, second):
    """For preexec_fn. This system call with these arguments pretends to succeed."""
    return _putting_on([(LOAD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 5, call),
                        (LOAD, 0, 0, FIRST_ARGUMENT), (JUMP_IF_EQUAL, 0, 3, first),
                        (LOAD, 0, 0, SECOND_ARGUMENT), (JUMP_IF_EQUAL, 0, 1, second),
                        (GIVE, 0, 0, FAIL), (GIVE, 0, 0, ALLOW)])


def refuse_when(call, third, error):
    """For preexec_fn. This system call with this third argument fails."""
    return _putting_on([(LOAD, 0, 0, NUMBER), (JUMP_IF_EQUAL, 0, 3, call),
                        (LOAD, 0, 0, THIRD_ARGUMENT), (JUMP_IF_EQUAL, 0, 1, third),
                        (GIVE, 0, 0, FAIL | error), (GIVE, 0, 0, ALLOW)])


def _putting_on(code, on_all=False, no_new_privileges=True, by_prctl=False):
    packed = b"".join(struct.pack("=HBBI", *one) for one in code)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl.argtypes = [ctypes.c_int] + 4 * [ctypes.c_ulong]
    libc.syscall.argtypes = 4 * [ctypes.c_ulong]
    room = ctypes.create_string_buffer(packed, len(packed))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(room)))
    set_no_new_privileges, set_seccomp, seccomp, filter_mode = 38, 22, 317, 1

    def begin():
        if by_prctl:
            return libc.prctl(set_seccomp, 2, ctypes.addressof(program), 0, 0)
        return libc.syscall(seccomp, filter_mode, int(on_all), ctypes.addressof(program))

    def put():
        if no_new_privileges and libc.prctl(set_no_new_privileges, 1, 0, 0, 0) or begin():
            raise OSError(ctypes.get_errno(), f"no filter of {len(room)} bytes")
    return put
