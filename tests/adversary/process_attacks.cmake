# SPDX-License-Identifier: Apache-2.0
# Attacks on processes. They need root, who becomes other users.

# Programs that gain rights look for libcr where the test puts it: see PLACE in process_attack.py.
foreach(with "" run omit)
    set(program process_privileged${with})
    add_executable(${program} process_privileged.c)
    target_link_libraries(${program} PRIVATE cr)
    if(with)
        target_link_libraries(${program} PRIVATE cr_${with}_preload)
        target_link_options(${program} PRIVATE LINKER:--no-as-needed)
    endif()
    set_target_properties(${program} PROPERTIES BUILD_WITH_INSTALL_RPATH ON
        INSTALL_RPATH /mnt/${CMAKE_INSTALL_LIBDIR})
    list(APPEND privileged $<TARGET_FILE:${program}>)
endforeach()

function(add_process_attack name)
    cryo_add_test(NAME system.adversary.process_${name} LABEL system TIMEOUT 60
        COMMAND ${CRYO_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/process_${name}.py
                ${PROJECT_BINARY_DIR} ${ARGN})
    set_tests_properties(system.adversary.process_${name} PROPERTIES SKIP_RETURN_CODE 77)
endfunction()

add_process_attack(environment ${privileged})
add_process_attack(squatting $<TARGET_FILE:libcr_self>)
add_executable(process_waiter process_waiter.c)
add_process_attack(impersonation $<TARGET_FILE:process_waiter>)
