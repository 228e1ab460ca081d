// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/program.hpp"
#include "mpi/capsule/refuse.hpp"

#include <climits>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

namespace cryo::capsule {

namespace {

constexpr char name[] = "/mpi-capsule";

char beside_library[PATH_MAX]; // empty: not looked up yet

bool look(Refusal &why)
{
    Dl_info self;
    char real[PATH_MAX];
    if (dladdr(beside_library, &self) == 0 || realpath(self.dli_fname, real) == nullptr)
        return refuse(why,
                      "the place of Cryo's MPI library is not known; name the capsule's program "
                      "in CRYO_CAPSULE_PROGRAM");
    char *end = strrchr(real, '/');
    *end = 0;
    if (static_cast<size_t>(end - real) + sizeof(name) > sizeof(beside_library))
        return refuse(why, "%s: the name is too long", real);
    memcpy(stpcpy(beside_library, real), name, sizeof(name));
    return true;
}

} // namespace

const char *find_program(char *const *environment, Refusal &why)
{
    if (const char *wanted = variable(environment, "CRYO_CAPSULE_PROGRAM"))
        return wanted;
    return beside_library[0] != 0 || look(why) ? beside_library : nullptr;
}

} // namespace cryo::capsule
