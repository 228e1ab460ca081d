# SPDX-License-Identifier: Apache-2.0
foreach(name mutex_normal mutex_recursive mutex_error_checking mutex_robust mutex_pi mutex_shared
        condition condition_timed rwlock barrier semaphore spinlock once standard_library)
    cryo_test_program(sync/${name} TAGS threads)
endforeach()
