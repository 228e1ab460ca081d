# SPDX-License-Identifier: Apache-2.0
# Every test of Cryo is a ctest test with one label of: unit system mpi vm kunit lint bench.

set(CRYO_TEST_LABELS unit system mpi vm kunit lint bench)

# cryo_add_test(NAME label.name LABEL label COMMAND ... [TIMEOUT seconds] [RESOURCE_LOCK name]
#               [PROCESSORS n] [ENVIRONMENT A=B ...] [WORKING_DIRECTORY dir])
function(cryo_add_test)
    cmake_parse_arguments(T "" "NAME;LABEL;TIMEOUT;RESOURCE_LOCK;PROCESSORS;WORKING_DIRECTORY"
        "COMMAND;ENVIRONMENT" ${ARGN})
    if(NOT T_LABEL IN_LIST CRYO_TEST_LABELS)
        message(FATAL_ERROR "test ${T_NAME}: label '${T_LABEL}' is none of ${CRYO_TEST_LABELS}")
    endif()
    if(NOT T_NAME MATCHES "^${T_LABEL}[.]")
        message(FATAL_ERROR "test ${T_NAME}: its name must begin with its label: ${T_LABEL}.something")
    endif()
    if(NOT T_TIMEOUT)
        set(T_TIMEOUT 120)
    endif()
    if(DEFINED ENV{CRYO_SOAK})
        math(EXPR T_TIMEOUT "${T_TIMEOUT} * 10")
    endif()
    if(T_WORKING_DIRECTORY)
        add_test(NAME ${T_NAME} COMMAND ${T_COMMAND} WORKING_DIRECTORY ${T_WORKING_DIRECTORY})
    else()
        add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
    endif()
    set_tests_properties(${T_NAME} PROPERTIES LABELS ${T_LABEL} TIMEOUT ${T_TIMEOUT})
    if(T_RESOURCE_LOCK)
        set_tests_properties(${T_NAME} PROPERTIES RESOURCE_LOCK ${T_RESOURCE_LOCK})
    endif()
    if(T_PROCESSORS)
        set_tests_properties(${T_NAME} PROPERTIES PROCESSORS ${T_PROCESSORS})
    endif()
    if(T_ENVIRONMENT)
        set_tests_properties(${T_NAME} PROPERTIES ENVIRONMENT "${T_ENVIRONMENT}")
    endif()
endfunction()

# All GoogleTest binaries: what a sanitized build needs.
add_custom_target(unit_tests)

# cryo_add_unit_test(name SOURCES ... LIBS ...): a GoogleTest binary, one ctest test.
function(cryo_add_unit_test name)
    cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS" ${ARGN})
    add_executable(test_${name} ${T_SOURCES})
    add_dependencies(unit_tests test_${name})
    target_link_libraries(test_${name} PRIVATE cryo_options ${T_LIBS} GTest::gtest GTest::gtest_main)
    cryo_add_test(NAME unit.${name} LABEL unit COMMAND test_${name} TIMEOUT ${T_TIMEOUT})
endfunction()
