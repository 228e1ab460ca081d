// SPDX-License-Identifier: Apache-2.0
//
// What is found in auxiliary vectors: whole ones, cut ones, and one's own.
#include "look/auxiliary.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <initializer_list>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {
namespace {

std::string vector_of(std::initializer_list<std::pair<uint64_t, uint64_t>> entries)
{
    std::string bytes;
    for (const auto &[type, value] : entries) {
        bytes.append(reinterpret_cast<const char *>(&type), sizeof(type));
        bytes.append(reinterpret_cast<const char *>(&value), sizeof(value));
    }
    return bytes;
}

TEST(Auxiliary, HasTheValuesOfItsEntries)
{
    const std::string vector =
        vector_of({{AT_BASE, 0x7f0000000000}, {AT_SECURE, 1}, {AT_UID, AT_EUID}, {AT_NULL, 0}});
    EXPECT_EQ(0x7f0000000000U, auxiliary_value(vector, AT_BASE));
    EXPECT_EQ(1U, auxiliary_value(vector, AT_SECURE));
    EXPECT_EQ(0U, auxiliary_value(vector, AT_EUID)); // a value is no type
}

TEST(Auxiliary, EndsWhereItIsCut)
{
    const std::string vector = vector_of({{AT_BASE, 1}, {AT_SECURE, 1}});
    EXPECT_EQ(0U,
              auxiliary_value(std::string_view(vector).substr(0, vector.size() - 1), AT_SECURE));
    EXPECT_EQ(0U, auxiliary_value(std::string_view(), AT_SECURE));
}

TEST(Auxiliary, IsTheOneThatTheKernelGave)
{
    const Proc self(getpid());
    EXPECT_EQ(getauxval(AT_PHDR), auxiliary_value(self, AT_PHDR));
    EXPECT_NE(0U, auxiliary_value(self, AT_PHDR));
    EXPECT_EQ(getauxval(AT_SECURE) != 0, has_gained_rights(self));
}

TEST(Auxiliary, IsEmptyOnceItsProcessHasEnded)
{
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0)
        _exit(0);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_EQ(0U, auxiliary_value(Proc(child), AT_PHDR));
    EXPECT_FALSE(has_gained_rights(Proc(child)));
}

} // namespace
} // namespace cryo::capture
