# SPDX-License-Identifier: Apache-2.0
# What cannot be saved is refused by name.
cryo_test_program(refused/tcp_connection REFUSED socket)
cryo_test_program(refused/udp_connection REFUSED socket)
cryo_test_program(refused/io_uring NEEDS io_uring REFUSED io_uring)
cryo_test_program(refused/asynchronous_io NEEDS aio REFUSED "asynchronous I/O")
cryo_test_program(refused/other_rseq REFUSED rseq)
cryo_test_program(refused/protection_key_alone NEEDS pku REFUSED "protection keys")
cryo_test_program(refused/thread_ids NEEDS root REFUSED "other ids")
cryo_test_program(refused/userfaultfd NEEDS userfaultfd REFUSED userfaultfd)
cryo_test_program(refused/perf_event NEEDS perf REFUSED perf)
cryo_test_program(refused/bpf_map NEEDS bpf REFUSED bpf)
cryo_test_program(refused/pidfd REFUSED pidfd)
cryo_test_program(refused/device NEEDS fuse REFUSED /dev/fuse)
cryo_test_program(refused/inotify_raw REFUSED inotify)
cryo_test_program(refused/not_dumpable REFUSED dumpable)
cryo_test_program(refused/statically_linked REFUSED static)
target_link_options(program_statically_linked PRIVATE -static)
cryo_test_program(refused/checkpoint_signal_blocked REFUSED signal)

# What may be saved, and is otherwise refused by name.
cryo_test_program(refused/checkpoint_signal_replaced MAY_BE_REFUSED signal)
cryo_test_program(refused/seccomp MAY_BE_REFUSED seccomp)
cryo_test_program(refused/all_closed MAY_BE_REFUSED descriptor)
