# SPDX-License-Identifier: Apache-2.0
# Tests that run in a virtual machine on a stock Debian kernel, or on the debug kernel.

set(CRYO_VM ${PROJECT_SOURCE_DIR}/scripts/vm)
set(CRYO_VM_KERNELS 6.1 6.12 7)

# cryo_add_vm_test(NAME name COMMAND command... [KERNELS kernel...] [USER] [DEBUG]
#                  [OPTIONS option-of-scripts/vm-run...] [TIMEOUT seconds])
#
# One test vm.name.KERNEL for each kernel (all three by default): one boot, so COMMAND should do
# all there is to do on that kernel. USER runs it as uid 1000, as vm.name.user.KERNEL. DEBUG runs
# it on the debug kernel too; those tests take part with `ctest -C debugkernel`.
function(cryo_add_vm_test)
    cmake_parse_arguments(T "USER;DEBUG" "NAME;TIMEOUT" "COMMAND;KERNELS;OPTIONS" ${ARGN})
    if(NOT T_KERNELS)
        set(T_KERNELS ${CRYO_VM_KERNELS})
    endif()
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 300)
    endif()
    if(T_USER)
        string(APPEND T_NAME .user)
        list(APPEND T_OPTIONS --user)
    endif()
    if(T_DEBUG)
        list(APPEND T_KERNELS debug)
    endif()
    foreach(kernel ${T_KERNELS})
        set(only)
        set(seconds ${T_TIMEOUT})
        if(kernel STREQUAL debug)
            set(only CONFIGURATIONS debugkernel)
            math(EXPR seconds "${T_TIMEOUT} * 4") # the checkers cost that much
        endif()
        # scripts/vm ends in time to say what the kernel said last, even if it had to boot twice.
        math(EXPR patience "${seconds} + 120")
        cryo_add_test(NAME vm.${T_NAME}.${kernel} LABEL vm ${only} TIMEOUT ${patience} PROCESSORS 2
            COMMAND ${CRYO_VM} run --kernel ${kernel} --verbose --timeout ${seconds} ${T_OPTIONS}
                    -- ${T_COMMAND})
    endforeach()
endfunction()
