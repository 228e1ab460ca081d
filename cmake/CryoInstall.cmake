# SPDX-License-Identifier: Apache-2.0
# What is installed beside the targets: each folder installs its own; here is what spans them.
# Every path is relative to the prefix, so that an installed tree can be moved.
include(CMakePackageConfigHelpers)

# Programs find libcr by `pkg-config libcr` or by find_package(cryo), target cryo::cr.
file(RELATIVE_PATH CRYO_PREFIX_FROM_PC
    ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" CRYO_PREFIX_FROM_PC ${CRYO_PREFIX_FROM_PC})
configure_file(${PROJECT_SOURCE_DIR}/cmake/libcr.pc.in ${PROJECT_BINARY_DIR}/libcr.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/libcr.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(CRYO_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cryo)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cryo-config.cmake.in
    ${PROJECT_BINARY_DIR}/cryo-config.cmake INSTALL_DESTINATION ${CRYO_PACKAGE_DIR}
    NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cryo-config-version.cmake
    COMPATIBILITY SameMajorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cryo-config.cmake
    ${PROJECT_BINARY_DIR}/cryo-config-version.cmake DESTINATION ${CRYO_PACKAGE_DIR})
install(EXPORT cryo NAMESPACE cryo:: FILE cryo-targets.cmake DESTINATION ${CRYO_PACKAGE_DIR})

# Manual pages by section, completions by the command they complete.
foreach(section 1 3 5 7 8)
    file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.${section})
    install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
file(GLOB completions CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/completions/*)
install(FILES ${completions} DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/LICENSES TYPE DOC)
file(GLOB manual CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/README.md
    ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/docs/*.md
    ${PROJECT_SOURCE_DIR}/docs/*.svg)
install(FILES ${manual} TYPE DOC)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/packaging/metrics TYPE DOC)

# The target `product`: what is installed, without the tests.
function(cryo_collect_targets directory out)
    get_property(targets DIRECTORY ${directory} PROPERTY BUILDSYSTEM_TARGETS)
    get_property(below DIRECTORY ${directory} PROPERTY SUBDIRECTORIES)
    foreach(one IN LISTS below)
        cryo_collect_targets(${one} more)
        list(APPEND targets ${more})
    endforeach()
    set(${out} "${targets}" PARENT_SCOPE)
endfunction()
add_custom_target(product)
foreach(part userlib cr_run cr_checkpoint cr_restart cr_inspect cr_delta cr_store cr_status cr_top cr_metrics cr_server
        ompi-checkpoint ompi-restart opal-checkpoint opal-restart ompi-crs-component slurm)
    cryo_collect_targets(${PROJECT_SOURCE_DIR}/${part} targets)
    if(targets)
        add_dependencies(product ${targets})
    endif()
endforeach()
