# SPDX-License-Identifier: Apache-2.0
# What runs under cr_run --recover, on three nodes (distant.py), has anything killed, at random.
#
# cryo_kills_test(name OPTIONS ... COMMAND "program arguments" ...)
function(cryo_kills_test name)
    if(NOT CRYO_IP OR NOT user EQUAL 0)
        return()
    endif()
    cmake_parse_arguments(T "" "" "OPTIONS;COMMAND" ${ARGN})
    cryo_add_test(NAME mpi.${name} LABEL mpi TIMEOUT 900 SOAK_TIMEOUT 72000 PROCESSORS 2
        COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/traffic/kills_test.py
                --bin ${PROJECT_BINARY_DIR}/bin --ranks 4 ${T_OPTIONS} -- ${T_COMMAND})
endfunction()
# Not records: it writes over what its files hold, which a restart does not bring back. Windows without
# memory that ranks share, since the ranks move, and what is shared decides what is printed.
set(killed "locks print 100" "traffic 100" "persistent 100" "windows 100 apart")
list(TRANSFORM killed PREPEND ${CMAKE_CURRENT_BINARY_DIR}/ OUTPUT_VARIABLE killed_here)
cryo_kills_test(kills OPTIONS --mpirun ${CRYO_MPIRUN} --transport both COMMAND ${killed_here})
if(TARGET cryo_mpich AND CRYO_MPICC_MPICH AND CRYO_MPIEXEC_MPICH)
    list(TRANSFORM killed PREPEND ${CMAKE_CURRENT_BINARY_DIR}/mpich/ OUTPUT_VARIABLE killed_there)
    cryo_kills_test(mpich.kills OPTIONS --mpirun ${CRYO_MPIEXEC_MPICH} --transport ucx COMMAND ${killed_there})
endif()
