# SPDX-License-Identifier: Apache-2.0
foreach(name exceptions thread_locals iostreams exit_order static_objects polymorphism contexts
        string_functions randomness)
    cryo_test_program(runtime/${name})
endforeach()
cryo_test_program(runtime/ring_past NEEDS io_uring)
cryo_test_program(runtime/fixed_address FLAGS -fno-pie)
set_target_properties(program_fixed_address PROPERTIES POSITION_INDEPENDENT_CODE OFF)
target_link_options(program_fixed_address PRIVATE -no-pie)

add_library(program_constructor SHARED runtime/constructor_library.c)
target_link_libraries(program_constructor PRIVATE program_options)
cryo_test_program(runtime/constructors LIBS program_constructor)

add_library(program_plugin MODULE runtime/plugin.c)
target_link_libraries(program_plugin PRIVATE program_options)
cryo_test_program(runtime/dynamic_library LIBS ${CMAKE_DL_LIBS})
target_compile_definitions(program_dynamic_library PRIVATE
    PLUGIN="$<TARGET_FILE:program_plugin>")
add_dependencies(program_dynamic_library program_plugin)

add_library(program_slow_plugin MODULE runtime/slow_plugin.c)
target_link_libraries(program_slow_plugin PRIVATE program_options)
cryo_test_program(runtime/loader_lock LIBS ${CMAKE_DL_LIBS})
target_compile_definitions(program_loader_lock PRIVATE
    PLUGIN="$<TARGET_FILE:program_plugin>" SLOW_PLUGIN="$<TARGET_FILE:program_slow_plugin>")
add_dependencies(program_loader_lock program_plugin program_slow_plugin)
