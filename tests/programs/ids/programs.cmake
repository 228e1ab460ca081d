# SPDX-License-Identifier: Apache-2.0
foreach(name process_ids limits process_settings personality environment command_line
        auxiliary_vector time_zone credentials attributes
        thread_credentials memory_barriers)
    cryo_test_program(ids/${name})
endforeach()
cryo_test_program(ids/loginuid NEEDS loginuid)
cryo_test_program(ids/keyrings NEEDS keyrings)
cryo_test_program(ids/user_dispatch_failed)
