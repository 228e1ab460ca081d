// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/profilers.hpp"

#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/exported.hpp"
#include "mpi/stock/family.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/stock.hpp"
#include "mpi/wrap/revive.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <link.h>
#include <span>

extern "C" {
[[gnu::visibility("hidden")]] extern cryo::mpi::Front __start_cryo_fronts[];
[[gnu::visibility("hidden")]] extern cryo::mpi::Front __stop_cryo_fronts[];
}

namespace cryo::mpi {

namespace {

std::span<Front> fronts()
{
    return {__start_cryo_fronts, __stop_cryo_fronts};
}

Front *front_of(const char *name)
{
    for (Front &front : fronts()) {
        if (strcmp(front.name, name) == 0)
            return &front;
    }
    return nullptr;
}

const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != nullptr ? slash + 1 : path;
}

bool is_ours(const link_map &object)
{
    return object.l_ld == _DYNAMIC;
}

bool is_stock(const char *library)
{
    return strcmp(file_name(library), abi::library_name) == 0;
}

template <class Content>
const Content *table_of(const link_map &object, ElfW(Sxword) tag)
{
    for (const ElfW(Dyn) *entry = object.l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag != tag)
            continue;
        ElfW(Addr) address = entry->d_un.d_ptr;
        if (address < object.l_addr) // not relocated by the dynamic loader
            address += object.l_addr;
        return reinterpret_cast<const Content *>(address);
    }
    return nullptr;
}

// A library's dynamic symbols, whose number is in no table of its own.
class Symbols
{
  public:
    explicit Symbols(const link_map &object)
        : base_(object.l_addr), strings_(table_of<char>(object, DT_STRTAB)),
          symbols_(table_of<ElfW(Sym)>(object, DT_SYMTAB))
    {
        const auto *words = table_of<uint32_t>(object, DT_HASH);
        const auto *hash = table_of<uint32_t>(object, DT_GNU_HASH);
        if (strings_ == nullptr || symbols_ == nullptr)
            return;
        if (words != nullptr)
            defined_end_ = words[1];
        else if (hash != nullptr)
            count(hash);
        else
            return;
        undefined_end_ = hash != nullptr ? hash[1] : defined_end_;
    }

    template <class Visit>
    void each_undefined(const Visit &visit) const
    {
        for (size_t i = 1; i < undefined_end_; i++) {
            if (symbols_[i].st_shndx == SHN_UNDEF)
                visit(strings_ + symbols_[i].st_name);
        }
    }

    template <class Visit>
    void each_function(const Visit &visit) const
    {
        for (size_t i = 1; i < defined_end_; i++) {
            const ElfW(Sym) &symbol = symbols_[i];
            if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
                ELF64_ST_BIND(symbol.st_info) != STB_LOCAL)
                visit(strings_ + symbol.st_name,
                      reinterpret_cast<const void *>(base_ + symbol.st_value));
        }
    }

  private:
    // Defined symbols stand behind the others, each chain of them together.
    void count(const uint32_t *hash)
    {
        const uint32_t first = hash[1];
        const uint32_t *const buckets = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(*hash));
        const uint32_t *const chains = buckets + hash[0];
        uint32_t last = 0;
        for (uint32_t i = 0; i < hash[0]; i++)
            last = buckets[i] > last ? buckets[i] : last;
        if (last < first)
            return;
        while ((chains[last - first] & 1) == 0)
            last++;
        defined_end_ = last + size_t{1};
    }

    ElfW(Addr) base_;
    const char *strings_;
    const ElfW(Sym) * symbols_;
    size_t undefined_end_ = 0;
    size_t defined_end_ = 0;
};

// Whether functions of a library may be called in the place of ours: it calls PMPI_ functions, and
// looks up none. A library that does would find none behind it by dlsym(RTLD_NEXT), where the one
// stands without Cryo.
struct Calls {
    bool profiled;
    bool looked_up;
};

Calls calls_of(const Symbols &symbols)
{
    Calls calls{};
    symbols.each_undefined([&](const char *name) {
        calls.profiled = calls.profiled || strncmp(name, "PMPI", 4) == 0;
        calls.looked_up =
            calls.looked_up || strcmp(name, "dlsym") == 0 || strcmp(name, "dlvsym") == 0;
    });
    return calls;
}

template <class Visit>
void each_front(const Symbols &symbols, const Visit &visit)
{
    symbols.each_function([&](const char *name, const void *function) {
        Front *front = strncmp(name, "MPI", 3) == 0 ? front_of(name) : nullptr;
        if (front != nullptr)
            visit(*front, function);
    });
}

void lead_to(const link_map &library)
{
    const Symbols symbols(library);
    const Calls calls = calls_of(symbols);
    if (!calls.profiled || calls.looked_up)
        return;
    each_front(symbols, [](Front &front, const void *function) {
        if (front.function == front.own)
            front.function = function;
    });
}

template <class Visit>
bool each_needed(const link_map &object, const Visit &visit)
{
    const char *strings = table_of<char>(object, DT_STRTAB);
    for (const ElfW(Dyn) *entry = object.l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_NEEDED && visit(strings + entry->d_un.d_val))
            return true;
    }
    return false;
}

// Objects are in the order in which they were loaded: the program, what is preloaded, then what
// these need, and then what that needs.
link_map *first_object()
{
    return _r_debug.r_map;
}

bool needs_stock(const link_map &object)
{
    return !is_ours(object) && each_needed(object, is_stock);
}

// Visits what stands between the preloaded ones and the stock library, without Cryo.
template <class Visit>
void each_in_front(const Visit &visit)
{
    const link_map *last = first_object();
    while (last != nullptr && !is_ours(*last))
        last = last->l_next;
    if (last == nullptr)
        return;
    const auto load = [&](const char *name) {
        if (is_stock(name))
            return true;
        for (const link_map *next = last->l_next; next != nullptr; next = next->l_next) {
            if (strcmp(file_name(next->l_name), file_name(name)) != 0)
                continue;
            last = next;
            if (!is_of(abi::family, file_name(name)))
                visit(*next);
            break;
        }
        return false;
    };
    for (const link_map *user = first_object(); user != nullptr; user = user->l_next) {
        if (!is_ours(*user) && each_needed(*user, load))
            return;
    }
}

bool is_linked; // the program with the MPI library, before it began

[[gnu::constructor]] void lead_to_profilers()
{
    for (const link_map *object = first_object(); object != nullptr; object = object->l_next)
        is_linked = is_linked || needs_stock(*object);
    if (is_linked)
        each_in_front(lead_to);
}

// One of each node's, where the launcher tells and all run the same program.
bool tells()
{
    char *const *environment = job_environment();
    const char *programs = capsule::variable(environment, "OMPI_NUM_APP_CTX");
    if (programs != nullptr && strcmp(programs, "1") != 0)
        return true;
    for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
        if (const char *rank = capsule::variable(environment, name))
            return strcmp(rank, "0") == 0;
    }
    return true;
}

void tell_if_left_out(const link_map &library)
{
    const char *left_out = nullptr;
    each_front(Symbols(library), [&](const Front &front, const void *) {
        if (front.function == front.own && left_out == nullptr)
            left_out = front.name;
    });
    if (left_out != nullptr)
        say("%s of %s, and what else it has of MPI, is not called under Cryo: preload it "
            "(LD_PRELOAD=%s)",
            left_out, file_name(library.l_name), library.l_name);
}

// Where the program loads the MPI library itself, what it has loaded before may be in front.
void tell_of_loaded()
{
    const link_map *object = first_object();
    while (object != nullptr && !is_ours(*object))
        object = object->l_next;
    while (object != nullptr && (object = object->l_next) != nullptr) {
        if (!is_of(abi::family, file_name(object->l_name)) && calls_of(Symbols(*object)).profiled)
            tell_if_left_out(*object);
    }
}

} // namespace

void tell_profilers_left_out()
{
    if (!tells())
        return;
    if (!is_linked)
        tell_of_loaded();
    else
        each_in_front(tell_if_left_out);
}

} // namespace cryo::mpi
