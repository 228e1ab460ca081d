# SPDX-License-Identifier: Apache-2.0
foreach(name process_ids limits process_settings personality environment command_line
        auxiliary_vector time_zone credentials attributes
        thread_credentials thread_settings memory_barriers)
    cryo_test_program(ids/${name})
endforeach()
cryo_test_program(ids/loginuid NEEDS loginuid)
cryo_test_program(ids/keyrings NEEDS keyrings)
cryo_test_program(ids/user_dispatch_failed)
cryo_test_program(ids/not_dumpable MAY_BE_REFUSED dumpable)
cryo_test_program(ids/speculation NEEDS speculation)
cryo_test_program(ids/cpuid_traps NEEDS cpuid_fault)
cryo_test_program(ids/io_flusher NEEDS io_flusher)
cryo_test_program(ids/write_execute NEEDS mdwe)
cryo_test_program(ids/write_execute NAME write_execute_alone NEEDS mdwe_no_inherit FLAGS -DNO_INHERIT)
