// SPDX-License-Identifier: Apache-2.0
// MPI-IO files that are opened again in a restart, over a library that the test plays: what each
// member does where one of them fails. windows_test.cpp plays the rest of the capsule.
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/replay_kinds.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <iterator>
#include <memory>
#include <vector>

namespace cryo::capsule {

bool refuse(Refusal &why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why.text, sizeof(why.text), format, arguments);
    va_end(arguments);
    return false;
}

} // namespace cryo::capsule

namespace cryo::mpi {

void ready_slowly();

namespace {

constexpr MPI_Offset saved_size = 10;

// What the library does, and has been asked to do.
struct Played {
    bool tells_size = true;
    MPI_Offset of_others[4] = {saved_size, 0, saved_size, 0}; // as agree() in files.cpp lays it out
    int agreed = 0;
    int cut_back = 0;
};
Played played;

int a_handle;
std::vector<std::unique_ptr<char[]>> taken;

} // namespace

bool worked(int result, const char *what, Why &why)
{
    return result == MPI_SUCCESS || capsule::refuse(why, "%s", what);
}

bool no_memory(Why &why)
{
    return capsule::refuse(why, "no memory");
}

void *Notes::take(size_t bytes)
{
    return taken.emplace_back(std::make_unique<char[]>(bytes)).get();
}

uint64_t mark_of(const Ranks & /*ranks*/, const Ranks & /*remote*/)
{
    return 0;
}

MPI_Comm communicator_of(const Story & /*story*/, const Ranks & /*ranks*/)
{
    return reinterpret_cast<MPI_Comm>(&a_handle);
}

void bind_object(Object *object, void *real)
{
    object->real = real;
}

namespace {

class FilesTest : public testing::Test
{
  protected:
    FilesTest()
    {
        ready_slowly();
        played = {};
        stock.File_open = [](MPI_Comm, const char *, int, MPI_Info, MPI_File *made) {
            *made = reinterpret_cast<MPI_File>(&a_handle);
            return MPI_SUCCESS;
        };
        stock.File_get_size = [](MPI_File, MPI_Offset *size) {
            if (!played.tells_size)
                return MPI_ERR_IO;
            *size = saved_size;
            return MPI_SUCCESS;
        };
        stock.Allreduce = [](const void *mine, void *all, int count, MPI_Datatype, MPI_Op,
                             MPI_Comm) {
            played.agreed++;
            std::vector<MPI_Offset> values(static_cast<size_t>(count));
            memcpy(values.data(), mine, values.size() * sizeof(MPI_Offset));
            for (size_t i = 0; i < values.size() && i < std::size(played.of_others); i++)
                values[i] = std::max(values[i], played.of_others[i]);
            memcpy(all, values.data(), values.size() * sizeof(MPI_Offset));
            return MPI_SUCCESS;
        };
        stock.Comm_free = [](MPI_Comm *) { return MPI_SUCCESS; };
        stock.File_set_size = [](MPI_File, MPI_Offset) {
            played.cut_back++;
            return MPI_SUCCESS;
        };
        stock.File_set_view = [](MPI_File, MPI_Offset, MPI_Datatype, MPI_Datatype, const char *,
                                 MPI_Info) { return MPI_SUCCESS; };
        stock.File_seek = [](MPI_File, MPI_Offset, int) { return MPI_SUCCESS; };
        stock.File_set_atomicity = [](MPI_File, int) { return MPI_SUCCESS; };
        stock.File_set_errhandler = [](MPI_File, MPI_Errhandler) { return MPI_SUCCESS; };
        note.object = &object;
        note.name = "results.data";
        note.mode = MPI_MODE_RDWR;
        note.size = saved_size;
        note.info = &info;
        note.handler = &handler;
        note.etype = note.filetype = &type;
        story.files.add(&note);
    }

    bool replayed() { return replay_files(story, why); }

    Object object = {};
    InfoNote info = {};
    HandlerNote handler = {};
    TypeNote type = {};
    FileNote note = {};
    Story story = {};
    Why why = {};
};

} // namespace

TEST_F(FilesTest, AreOpenedAgain)
{
    ASSERT_TRUE(replayed()) << why.text;
    EXPECT_EQ(static_cast<void *>(&a_handle), object.real);
    EXPECT_EQ(1, played.agreed);
    EXPECT_EQ(0, played.cut_back);
}

TEST_F(FilesTest, AMemberThatCannotTellTheSizeTakesPartInAgreeing)
{
    played.tells_size = false;
    EXPECT_FALSE(replayed());
    EXPECT_EQ(1, played.agreed) << "the others wait for it";
    EXPECT_STREQ("the size of a file", why.text);
}

TEST_F(FilesTest, TheOtherMembersGiveUpWithIt)
{
    played.of_others[3] = 1;
    EXPECT_FALSE(replayed());
    EXPECT_EQ(nullptr, object.real);
    EXPECT_STREQ("another rank cannot tell the size of results.data", why.text);
}

} // namespace cryo::mpi
