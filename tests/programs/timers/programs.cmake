# SPDX-License-Identifier: Apache-2.0
foreach(name interval_real interval_ticking interval_cpu alarm posix_timers notify_thread
        timer_descriptor timer_many ended_thread)
    cryo_test_program(timers/${name} TAGS time)
endforeach()
