# SPDX-License-Identifier: Apache-2.0
# Servers of images (docs/stores.md): what commands need of them, a server and its clients, and the
# program by which commands are clients.
add_library(cryo_store_transfer STATIC cryo_transfer.cpp cryo_url.cpp)
target_link_libraries(cryo_store_transfer PUBLIC cryo_cli nlohmann_json::nlohmann_json)

add_library(cryo_store_server STATIC cryo_addresses.cpp cryo_client.cpp cryo_depot.cpp cryo_key.cpp
    cryo_server.cpp cryo_session.cpp)
target_link_libraries(cryo_store_server PUBLIC cryo_store_transfer cryo_coord_channel)

add_executable(cryo_store_cryo cryo_main.cpp)
target_link_libraries(cryo_store_cryo PRIVATE cryo_options cryo_store_server)
set_target_properties(cryo_store_cryo PROPERTIES OUTPUT_NAME store-cryo
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_INSTALL_LIBDIR}/cryo)
install(TARGETS cryo_store_cryo RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/cryo)
