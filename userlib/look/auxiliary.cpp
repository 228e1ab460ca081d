// SPDX-License-Identifier: Apache-2.0
#include "look/auxiliary.hpp"

#include <cstring>
#include <elf.h>

namespace cryo::capture {

uint64_t auxiliary_value(std::string_view vector, uint64_t type)
{
    Elf64_auxv_t entry;
    for (; vector.size() >= sizeof(entry); vector.remove_prefix(sizeof(entry))) {
        memcpy(&entry, vector.data(), sizeof(entry));
        if (entry.a_type == type)
            return entry.a_un.a_val;
    }
    return 0;
}

uint64_t auxiliary_value(const Proc &proc, uint64_t type)
{
    const Result<std::string> vector = proc.read("auxv");
    return vector ? auxiliary_value(*vector, type) : 0;
}

bool has_gained_rights(const Proc &proc)
{
    return auxiliary_value(proc, AT_SECURE) != 0;
}

} // namespace cryo::capture
