# SPDX-License-Identifier: Apache-2.0
foreach(name read_pipe write_pipe main_thread poll poll_timed select epoll_wait masked_waits futex
        nanosleep pause sigwait file_locks fifo_open event_reads join semaphore_timed own_signals
        timed_waits by_number socket_limits socket_limits_by_number parts)
    cryo_test_program(blocked/${name})
endforeach()
foreach(way read poll select epoll)
    string(TOUPPER ${way} WAY)
    cryo_test_program(blocked/alone NAME alone_${way} TAGS one-thread FLAGS -DWAY=${WAY})
endforeach()
cryo_test_program(blocked/accept NAME accept_unix TAGS listening FLAGS -DFAMILY=AF_UNIX)
cryo_test_program(blocked/accept NAME accept_tcp TAGS listening FLAGS -DFAMILY=AF_INET)
cryo_test_program(blocked/sysv_queues TAGS sysv NEEDS sysvipc)
