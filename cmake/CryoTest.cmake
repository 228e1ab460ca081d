# SPDX-License-Identifier: Apache-2.0
# Every test of Cryo is a ctest test with one label of: unit system mpi vm kunit lint bench, and with
# labels that say when scripts/test runs it (tests/tiers.txt, docs/testing.md).
include(CryoTiers)

set(CRYO_TEST_LABELS unit system mpi vm kunit lint bench)

# cryo_add_test(NAME label.name LABEL label COMMAND ... [TIMEOUT seconds] [SOAK_TIMEOUT seconds]
#               [RESOURCE_LOCK name] [PROCESSORS n] [ENVIRONMENT A=B ...] [WORKING_DIRECTORY dir]
#               [CONFIGURATIONS c ...])
#
# PROCESSORS is for a test that tests/costs.txt does not know yet. TIMEOUT, 300 if it is not named, is
# for hangs: a test that hangs until a whole run is broken off hides what failed. One that goes on
# beside seven others, on two processors, must not run into it. With CRYO_SOAK, SOAK_TIMEOUT counts,
# or ten times TIMEOUT.
function(cryo_add_test)
    cmake_parse_arguments(T "" "NAME;LABEL;TIMEOUT;SOAK_TIMEOUT;RESOURCE_LOCK;PROCESSORS;WORKING_DIRECTORY"
        "COMMAND;ENVIRONMENT;CONFIGURATIONS" ${ARGN})
    if(NOT T_LABEL IN_LIST CRYO_TEST_LABELS)
        message(FATAL_ERROR "test ${T_NAME}: label '${T_LABEL}' is none of ${CRYO_TEST_LABELS}")
    endif()
    if(NOT T_NAME MATCHES "^${T_LABEL}[.]")
        message(FATAL_ERROR "test ${T_NAME}: its name must begin with its label: ${T_LABEL}.something")
    endif()
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 300)
    endif()
    if(T_LABEL MATCHES "^(unit|system|mpi|bench)$" AND T_TIMEOUT GREATER 900)
        message(FATAL_ERROR "test ${T_NAME}: TIMEOUT ${T_TIMEOUT} is more than 900; the longer one "
            "of a soak is SOAK_TIMEOUT")
    endif()
    if(DEFINED ENV{CRYO_SOAK})
        if(T_SOAK_TIMEOUT)
            set(T_TIMEOUT ${T_SOAK_TIMEOUT})
        else()
            math(EXPR T_TIMEOUT "${T_TIMEOUT} * 10")
        endif()
    endif()
    set(where)
    if(T_WORKING_DIRECTORY)
        set(where WORKING_DIRECTORY ${T_WORKING_DIRECTORY})
    endif()
    if(T_CONFIGURATIONS)
        list(APPEND where CONFIGURATIONS ${T_CONFIGURATIONS})
    endif()
    # A program is run from where it is built only if its target's name is the command itself.
    list(POP_FRONT T_COMMAND program)
    if(TARGET ${program})
        set(program $<TARGET_FILE:${program}>)
    endif()
    add_test(NAME ${T_NAME} ${where}
        COMMAND ${CRYO_PYTHON} -IS ${PROJECT_SOURCE_DIR}/scripts/lib/run_one_test ${T_NAME}
                ${program} ${T_COMMAND})
    cryo_tier(${T_NAME} tiers)
    cryo_slots(${T_NAME} "${tiers}" "${T_PROCESSORS}" slots seconds)
    set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABEL};${tiers}" TIMEOUT ${T_TIMEOUT}
        PROCESSORS ${slots} COST ${seconds})
    if(T_RESOURCE_LOCK)
        set_tests_properties(${T_NAME} PROPERTIES RESOURCE_LOCK ${T_RESOURCE_LOCK})
    endif()
    if(T_ENVIRONMENT)
        set_tests_properties(${T_NAME} PROPERTIES ENVIRONMENT "${T_ENVIRONMENT}")
    endif()
endfunction()

# All GoogleTest binaries: what a sanitized build needs.
add_custom_target(unit_tests)
# The default tier runs them sanitized only, which spares it minutes of building them twice.
option(CRYO_UNIT_TESTS "Build GoogleTest binaries with everything else, and register them" ON)

# cryo_add_unit_test(name SOURCES ... LIBS ...): a GoogleTest binary, one ctest test.
function(cryo_add_unit_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
    add_executable(test_${name} ${T_SOURCES})
    add_dependencies(unit_tests test_${name})
    target_link_libraries(test_${name} PRIVATE cryo_options ${T_LIBS} GTest::gtest GTest::gtest_main)
    if(NOT CRYO_UNIT_TESTS)
        set_target_properties(test_${name} PROPERTIES EXCLUDE_FROM_ALL TRUE)
        return()
    endif()
    cryo_add_test(NAME unit.${name} LABEL unit COMMAND test_${name} TIMEOUT ${T_TIMEOUT})
endfunction()
