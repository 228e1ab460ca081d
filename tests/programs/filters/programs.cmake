# SPDX-License-Identifier: Apache-2.0
# Filters of system calls (seccomp) that a program has put on itself.
cryo_test_program(filters/seccomp NEEDS reads_filters)
cryo_test_program(filters/seccomp_allowed NEEDS reads_filters)
cryo_test_program(filters/seccomp_threads NEEDS reads_filters)
cryo_test_program(filters/seccomp_threads NAME seccomp_all_threads NEEDS reads_filters FLAGS -DALL)
cryo_test_program(filters/seccomp_inherited NEEDS reads_filters)
