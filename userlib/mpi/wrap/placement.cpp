// SPDX-License-Identifier: Apache-2.0
// RULE for this file: except note_node() it may run in a signal handler of a restored copy.
#include "mpi/wrap/placement.hpp"
#include "coord/place.hpp"
#include "cryo_ckpt.h"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/versions.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/revive.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unistd.h>

namespace cryo::mpi {

using capsule::call;
using rank::memory;

namespace {

using Numbers = std::pmr::vector<int>;
using Text = std::pmr::vector<char>;

constexpr size_t longest_name = 128;
constexpr size_t most_functions = 16;
constexpr size_t first_size = offsetof(cryo_placement, weights) + sizeof(cryo_placement::weights);

char node_here[longest_name];
int ranks_here;

// Of the last restart. The program may hold what it was given, so that is never given back.
cryo_placement table;
size_t table_bytes;
void *table_memory;
bool is_handed_out;

struct Function {
    void (*function)(void *argument);
    void *argument;
};
Function functions[most_functions];
std::atomic<size_t> function_count;
capsule::Lock functions_lock;

void name_node(char *const *environment, char *name)
{
    if (!coord::node_name(environment, name, longest_name))
        memcpy(name, "?", 2);
}

MPI_Comm world()
{
    return static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
}

// The nodes of all ranks: names of different nodes, in the order of their lowest ranks.
struct Nodes {
    explicit Nodes(size_t ranks) : of_rank(ranks, &memory()), names(&memory()) {}
    Numbers of_rank;
    std::pmr::vector<std::string_view> names;

    size_t name_bytes() const
    {
        return std::accumulate(
            names.begin(), names.end(), size_t(0),
            [](size_t sum, std::string_view one) { return sum + one.size() + 1; });
    }
};

Nodes nodes_of(const std::pmr::vector<std::string_view> &name_of)
{
    Nodes nodes(name_of.size());
    Numbers by_name(name_of.size(), &memory());
    std::iota(by_name.begin(), by_name.end(), 0);
    const auto name = [&](int rank) { return name_of[static_cast<size_t>(rank)]; };
    std::sort(by_name.begin(), by_name.end(),
              [&](int a, int b) { return name(a) != name(b) ? name(a) < name(b) : a < b; });
    Numbers first(name_of.size(), &memory()); // of each rank: the lowest one of its node
    for (size_t i = 0; i < by_name.size(); i++) {
        const bool is_new = i == 0 || name(by_name[i]) != name(by_name[i - 1]);
        first[static_cast<size_t>(by_name[i])] =
            is_new ? by_name[i] : first[static_cast<size_t>(by_name[i - 1])];
    }
    for (size_t rank = 0; rank < first.size(); rank++) {
        const auto lowest = static_cast<size_t>(first[rank]);
        nodes.of_rank[rank] =
            lowest == rank ? static_cast<int>(nodes.names.size()) : nodes.of_rank[lowest];
        if (lowest == rank)
            nodes.names.push_back(name_of[rank]);
    }
    return nodes;
}

// A record of each rank: the name of its node before, a NUL, that of its node now, a NUL.
bool exchange(const char *before, const char *now, Text &all, Numbers &places, Why &why)
{
    const auto number = static_cast<MPI_Datatype>(object_of(MPI_INT)->real);
    const auto letter = static_cast<MPI_Datatype>(object_of(MPI_CHAR)->real);
    constexpr const char *what = "telling the ranks of their nodes";
    Text own(&memory());
    for (const char *name : {before, now})
        own.insert(own.end(), name, name + strnlen(name, longest_name) + 1);
    const auto length = static_cast<int>(own.size());
    Numbers lengths(places.size(), &memory());
    if (!worked(call(stock.Allgather, static_cast<const void *>(&length), 1, number,
                     static_cast<void *>(lengths.data()), 1, number, world()),
                what, why))
        return false;
    std::exclusive_scan(lengths.begin(), lengths.end(), places.begin(), 0);
    all.resize(static_cast<size_t>(places.back()) + static_cast<size_t>(lengths.back()));
    return worked(call(stock.Allgatherv, static_cast<const void *>(own.data()), length, letter,
                       static_cast<void *>(all.data()), static_cast<const int *>(lengths.data()),
                       static_cast<const int *>(places.data()), letter, world()),
                  what, why);
}

// CRYO_WEIGHTS, as ompi-restart has set it: "0=7,5=3", with the lowest rank of each node. False:
// somebody else has.
bool read_weights(const char *text, const Nodes &now, unsigned long *weights)
{
    while (*text != 0) {
        char *end = nullptr;
        const unsigned long rank = strtoul(text, &end, 10);
        if (end == text || *end != '=')
            return false;
        text = end + 1;
        const unsigned long weight = strtoul(text, &end, 10);
        if (rank < now.of_rank.size())
            weights[now.of_rank[rank]] = weight;
        text = *end == ',' ? end + 1 : end;
        if (*end != ',')
            break;
    }
    return *text == 0;
}

// Hands out parts of one block, the more strictly aligned ones first.
class Block
{
  public:
    explicit Block(void *memory) : at_(static_cast<char *>(memory)) {}
    template <class T>
    T *take(size_t count)
    {
        char *part = at_;
        at_ += count * sizeof(T);
        return reinterpret_cast<T *>(part);
    }

  private:
    char *at_;
};

const char *const *keep_names(const Nodes &nodes, const char **names, Block &block)
{
    for (size_t i = 0; i < nodes.names.size(); i++) {
        const std::string_view name = nodes.names[i];
        char *kept = block.take<char>(name.size() + 1);
        memcpy(kept, name.data(), name.size());
        kept[name.size()] = 0;
        names[i] = kept;
    }
    return names;
}

const int *keep_numbers(const Numbers &numbers, Block &block)
{
    int *kept = block.take<int>(numbers.size());
    std::copy(numbers.begin(), numbers.end(), kept);
    return kept;
}

bool keep_table(const Nodes &before, const Nodes &now, Why &why)
{
    const size_t bytes = now.names.size() * sizeof(unsigned long) +
                         (now.names.size() + before.names.size()) * sizeof(char *) +
                         2 * now.of_rank.size() * sizeof(int) + now.name_bytes() +
                         before.name_bytes();
    void *place = capsule::keep(bytes);
    if (place == nullptr)
        return no_memory(why);
    Block block(place);
    auto *weights = block.take<unsigned long>(now.names.size());
    const char **names_now = block.take<const char *>(now.names.size());
    const char **names_before = block.take<const char *>(before.names.size());
    if (table_memory != nullptr && !is_handed_out)
        capsule::unkeep(table_memory, table_bytes);
    table_memory = place;
    table_bytes = bytes;
    is_handed_out = false;
    table = {};
    table.nodes = static_cast<int>(now.names.size());
    table.nodes_before = static_cast<int>(before.names.size());
    table.node_of = keep_numbers(now.of_rank, block);
    table.node_before = keep_numbers(before.of_rank, block);
    table.names = keep_names(now, names_now, block);
    table.names_before = keep_names(before, names_before, block);
    std::fill_n(weights, now.names.size(), 0UL);
    if (const char *text = capsule::variable(job_environment(), "CRYO_WEIGHTS");
        text != nullptr && read_weights(text, now, weights))
        table.weights = weights;
    return true;
}

} // namespace

void note_node()
{
    name_node(environ, node_here);
    call(stock.Comm_size, world(), &ranks_here);
}

bool gather_placement(Why &why)
{
    if (ranks_here == 0)
        return true;
    const ErrorsReturn quiet(object_of(MPI_COMM_WORLD));
    char node_now[longest_name];
    name_node(job_environment(), node_now);
    const auto ranks = static_cast<size_t>(ranks_here);
    Numbers places(ranks, &memory());
    Text all(&memory());
    if (!exchange(node_here, node_now, all, places, why))
        return false;
    memcpy(node_here, node_now, sizeof(node_here));
    std::pmr::vector<std::string_view> names(ranks, &memory());
    for (size_t rank = 0; rank < ranks; rank++)
        names[rank] = all.data() + places[rank];
    const Nodes before = nodes_of(names);
    for (std::string_view &name : names)
        name = name.data() + name.size() + 1;
    return keep_table(before, nodes_of(names), why);
}

void tell_of_restart()
{
    for (size_t i = 0; i < function_count; i++)
        functions[i].function(functions[i].argument);
}

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED int cryo_ckpt_placement(cryo_placement *placement)
{
    const size_t size = placement->size;
    if (size < first_size)
        return CKPT_FAILED;
    memset(reinterpret_cast<char *>(placement) + sizeof(size), 0, size - sizeof(size));
    if (!rank::engine_counts)
        return CKPT_NOT_COVERED;
    is_handed_out = true;
    cryo_placement now = table;
    now.size = size;
    now.restarts = static_cast<int>(rank::restarts());
    now.ranks = ranks_here;
    memcpy(placement, &now, std::min(size, sizeof(now)));
    return CKPT_SAVED;
}

EXPORTED int cryo_ckpt_on_restart(void (*function)(void *), void *argument)
{
    const cryo::capsule::Hold hold(functions_lock);
    const size_t count = function_count;
    if (function == nullptr || count == most_functions)
        return CKPT_FAILED;
    functions[count] = {function, argument};
    function_count = count + 1;
    return CKPT_SAVED;
}
