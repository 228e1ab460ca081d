# SPDX-License-Identifier: Apache-2.0
foreach(name python_objects python_threads)
    cryo_test_program(scripts/${name} INTERPRETER ${CRYO_PYTHON} -B)
endforeach()
cryo_test_program(scripts/python_numpy INTERPRETER ${CRYO_PYTHON} -B NEEDS python-numpy
    CHECKPOINT_OPTIONS --save-shared)
cryo_test_program(scripts/perl_values INTERPRETER perl NEEDS perl)
cryo_test_program(scripts/bash_state INTERPRETER bash)

find_program(CRYO_JAVAC javac)
if(CRYO_JAVAC)
    add_custom_command(OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/Jvm.class
        COMMAND ${CRYO_JAVAC} -d ${CMAKE_CURRENT_BINARY_DIR}
            ${CMAKE_CURRENT_SOURCE_DIR}/scripts/Jvm.java
        DEPENDS scripts/Jvm.java COMMENT "Compiling the Java test program")
    add_custom_target(program_jvm ALL DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/Jvm.class)
    cryo_test_program(scripts/Jvm NAME jvm NEEDS java
        COMMAND java -Xmx64m -XX:+UseSerialGC -cp ${CMAKE_CURRENT_BINARY_DIR} Jvm)
endif()
