// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

// Returns null when there is no memory left.
void *Notes::take(size_t bytes)
{
    constexpr size_t usual = 64 * 1024;
    bytes = (bytes + 15) & ~size_t{15};
    if (blocks_ == nullptr || blocks_->used + bytes > blocks_->bytes) {
        const size_t head = (sizeof(Block) + 15) & ~size_t{15};
        const size_t whole = bytes + head > usual ? bytes + head : usual;
        auto *block = static_cast<Block *>(capsule::keep(whole));
        if (block == nullptr)
            return nullptr;
        *block = {blocks_, whole, head};
        blocks_ = block;
    }
    void *place = reinterpret_cast<char *>(blocks_) + blocks_->used;
    blocks_->used += bytes;
    return place;
}

char *Notes::text(const char *from)
{
    const size_t bytes = strlen(from) + 1;
    auto *place = static_cast<char *>(take(bytes));
    return place == nullptr ? nullptr : static_cast<char *>(memcpy(place, from, bytes));
}

void Notes::forget()
{
    while (blocks_ != nullptr) {
        Block *block = blocks_;
        blocks_ = block->next;
        capsule::unkeep(block, block->bytes);
    }
}

ErrorsReturn::ErrorsReturn(const Object *comm) : comm_(comm)
{
    const auto real = static_cast<MPI_Comm>(comm->real);
    call(stock.Comm_get_errhandler, real, &before_);
    if (!has_no_handler(comm_, before_) || comm_ == object_of(MPI_COMM_WORLD))
        call(stock.Comm_set_errhandler, real,
             static_cast<MPI_Errhandler>(object_of(MPI_ERRORS_RETURN)->real));
}

ErrorsReturn::~ErrorsReturn()
{
    if (!has_no_handler(comm_, before_) || comm_ == object_of(MPI_COMM_WORLD))
        call(stock.Comm_set_errhandler, static_cast<MPI_Comm>(comm_->real), before_);
    call(stock.Errhandler_free, &before_);
}

bool no_memory(Why &why)
{
    return refuse(why, "no memory to write down what the MPI handles are");
}

bool worked(int result, const char *what, Why &why)
{
    if (result == MPI_SUCCESS)
        return true;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    call(stock.Error_string, result, text, &length);
    return refuse(why, "%s: %.200s", what, text);
}

bool describe_ranks(Story &story, MPI_Group real, Ranks &ranks, Why &why)
{
    call(stock.Group_size, real, &ranks.count);
    if (ranks.count == 0)
        return true;
    const auto count = static_cast<size_t>(ranks.count);
    ranks.world = story.notes.make<int>(count);
    auto *numbers = static_cast<int *>(capsule::keep(count * sizeof(int)));
    if (ranks.world == nullptr || numbers == nullptr)
        return no_memory(why);
    for (int i = 0; i < ranks.count; i++)
        numbers[i] = i;
    const int result =
        call(stock.Group_translate_ranks, real, ranks.count, numbers, story.world, ranks.world);
    capsule::unkeep(numbers, count * sizeof(int));
    if (!worked(result, "a group", why))
        return false;
    for (int i = 0; i < ranks.count; i++) {
        if (ranks.world[i] == MPI_UNDEFINED)
            return refuse(why, "a communicator or group has members that are not in "
                               "MPI_COMM_WORLD (MPI_Comm_spawn, MPI_Comm_connect)");
    }
    return true;
}

MPI_Group group_of(const Story &story, const Ranks &ranks)
{
    MPI_Group made = nullptr;
    if (call(stock.Group_incl, story.world, ranks.count, ranks.world, &made) != MPI_SUCCESS)
        return nullptr;
    return made;
}

} // namespace cryo::mpi
