# SPDX-License-Identifier: Apache-2.0
foreach(name offset flags append log_rollback unlinked renamed shared_description cloexec directory
        cwd_umask devices pipe_contents pipe_ends pipe_size pipe_packets fifo fifo_unlinked eventfd
        signalfd epoll epoll_nested inotify inotify_unusual inotify_removed locks sparse_file path_only sendfile signal_driven pty
        terminal stdio_streams no_standard_descriptors every_number socket_pairs sockets_unconnected
        pty_exclusive pty_lines epoll_numbers linked unlinked_large fifo_alone timer_repeats timer_short lock_ranges
        proc_self about_ended connection_ended time_kept passed_in_stream passed_in_packets passed_timer passed_epoll passed_around passed_listener pair_left pair_reset
        datagrams_waiting udp_connection udp_shut_down shared_port closed_by_number closed_by_sharer removed_directory leases
        netlink_sockets socket_filters socket_options socket_owner object_owner socket_forbidden socket_renamed socket_removed multicast tcp_congestion)
    cryo_test_program(files/${name})
endforeach()
cryo_test_program(files/closed_by_sharer NAME closed_by_sharer_of_memory FLAGS -DMEMORY)
cryo_test_program(files/aio NEEDS aio)
cryo_test_program(files/many_descriptors NEEDS open-files-2000)
cryo_test_program(files/tcp_segments NEEDS segment_limit)
cryo_test_program(files/high_descriptor NEEDS open-files-2000)
cryo_test_program(files/ping_socket NEEDS ping)
cryo_test_program(files/raw_sockets NEEDS net_raw)
cryo_test_program(files/packet_sockets NEEDS packet packet_diag)
cryo_test_program(files/packet_joined NEEDS packet packet_diag)
cryo_test_program(files/packet_fanout NEEDS packet packet_diag)
cryo_test_program(files/device_removed NEEDS root)
cryo_test_program(files/udp_lite NEEDS udp_lite)
cryo_test_program(files/multicast_lite NEEDS udp_lite)
cryo_test_program(files/socket_closed CHECKPOINT_OPTIONS --sockets=close)
