// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/strangers.hpp"

#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/family.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/revive.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <elf.h>
#include <link.h>

namespace cryo::mpi {

namespace {

struct Needed {
    bool ours = false;
    bool others = false;
};

// Of one object of the process: the program or a library.
int look_at_needed(dl_phdr_info *object, size_t /*size*/, void *data)
{
    auto *needed = static_cast<Needed *>(data);
    const ElfW(Dyn) *dynamic = nullptr;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) &segment = object->dlpi_phdr[i];
        if (segment.p_type == PT_DYNAMIC)
            dynamic = reinterpret_cast<const ElfW(Dyn) *>(object->dlpi_addr + segment.p_vaddr);
    }
    if (dynamic == nullptr)
        return 0;
    ElfW(Addr) strings = 0;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB)
            strings = entry->d_un.d_ptr;
    }
    if (strings < object->dlpi_addr) // not relocated by the dynamic loader
        strings += object->dlpi_addr;
    for (const ElfW(Dyn) *entry = dynamic; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != DT_NEEDED)
            continue;
        const char *name = reinterpret_cast<const char *>(strings + entry->d_un.d_val);
        needed->ours = needed->ours || is_of(abi::family, name);
        needed->others = needed->others || is_of(other_than(abi::family), name);
    }
    return 0;
}

// The dynamic loader's lock is the program's: a restored rank may have been interrupted with it,
// and need not be asked.
void refuse_foreign_program()
{
    constexpr Family ours = abi::family;
    constexpr Family others = other_than(ours);
    Needed needed;
    dl_iterate_phdr(look_at_needed, &needed);
    if (needed.others && !needed.ours)
        fatal("this program is made for %s, and cr_run has found the launcher of %s: start it by "
              "that of %s (%s)",
              name_of(others), name_of(ours), name_of(others), launcher_of(others));
}

void refuse_foreign_launcher()
{
    constexpr Family ours = abi::family;
    constexpr Family others = other_than(ours);
    char *const *environment = job_environment();
    const Family launcher =
        launcher_in([&](const char *name) { return capsule::variable(environment, name); });
    if (launcher == others)
        fatal("this rank was saved under %s, and the launcher of %s brings it back: name one of %s "
              "(ompi-restart --mpirun %s)",
              name_of(ours), name_of(others), name_of(ours), launcher_of(ours));
}

} // namespace

void refuse_strangers()
{
    if (is_to_revive())
        refuse_foreign_launcher();
    else
        refuse_foreign_program();
}

} // namespace cryo::mpi
