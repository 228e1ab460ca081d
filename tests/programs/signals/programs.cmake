# SPDX-License-Identifier: Apache-2.0
foreach(name dispositions masks alternate_stack on_alternate_stack autodisarm pending_process
        pending_thread queued_whole last_one every_one queued_order storm nested_handlers interrupted_code all_taken
        blocked_by_number held)
    if(name STREQUAL "storm")
        cryo_test_program(signals/storm NAME signal_storm)
    else()
        cryo_test_program(signals/${name})
    endif()
endforeach()
cryo_test_program(signals/small_stack FLAGS -DLAST=SIGRTMAX)
cryo_test_program(signals/small_stack NAME small_stack_but_last FLAGS -DLAST=SIGRTMAX-1)
