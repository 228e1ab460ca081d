# SPDX-License-Identifier: Apache-2.0
foreach(name pipeline fifo_members session_above shared_offset shared_memory shared_forms zombie relations orphan socketpair
        passed_descriptor passed_between unix_connection
        unix_names unix_waiting peer_credentials tcp_members tcp_waiting udp_members
        terminal_shell member_locks waiting_parent executed_child member_signals stopped_twice stopped_by
        fork_memory fork_regrown fork_storm leaving listener controlling_terminal cloned pidfd_member)
    cryo_test_program(trees/${name})
endforeach()
cryo_test_program(trees/system_v TAGS sysv NEEDS sysvipc)
cryo_test_program(trees/system_v_forms TAGS sysv NEEDS sysvipc)
cryo_test_program(trees/semaphore_undo TAGS sysv NEEDS sysvipc)
cryo_test_program(trees/posix_ipc NEEDS mqueue)
cryo_test_program(trees/posix_queues NEEDS mqueue)
target_link_libraries(program_terminal_shell PRIVATE util)
cryo_test_program(trees/about_child)
cryo_test_program(trees/about_child NAME about_memory REFUSED "a file about process" FLAGS -DMEMORY)
cryo_test_program(trees/shared_directory)
cryo_test_program(trees/shared_io)
cryo_test_program(trees/shared_undo TAGS sysv NEEDS sysvipc)
cryo_test_program(trees/shared_directory NAME directory_apart FLAGS -DAPART)
cryo_test_program(trees/shared_directory NAME directory_of_copies FLAGS -DLARGE)
