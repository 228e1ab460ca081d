# SPDX-License-Identifier: Apache-2.0
# Every library Cryo uses, found in one place. scripts/lib/packages.sh names the Debian packages.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(tomlplusplus REQUIRED IMPORTED_TARGET tomlplusplus)
pkg_check_modules(openssl REQUIRED IMPORTED_TARGET openssl>=3.0)
pkg_check_modules(microhttpd REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.71)
# Signs requests to object stores; all headers since 7.87.
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl>=7.87)
pkg_check_modules(pugixml REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(nl REQUIRED IMPORTED_TARGET libnl-3.0 libnl-genl-3.0)
# The system's own python before any that a user has in front of it: it is the one with packages.
find_program(CRYO_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_program(CRYO_PYTHON python3 REQUIRED)
set(Python3_EXECUTABLE ${CRYO_PYTHON})
if(BUILD_TESTING)
    find_package(GTest REQUIRED)
    find_package(benchmark REQUIRED)
endif()
