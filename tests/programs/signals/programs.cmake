# SPDX-License-Identifier: Apache-2.0
foreach(name dispositions masks alternate_stack on_alternate_stack autodisarm pending_process
        pending_thread queued_order storm nested_handlers interrupted_code all_taken
        small_stack)
    if(name STREQUAL "storm")
        cryo_test_program(signals/storm NAME signal_storm)
    else()
        cryo_test_program(signals/${name})
    endif()
endforeach()
