// SPDX-License-Identifier: Apache-2.0
// What the library stores for attributes of Fortran and of C that share a number.
#include "mpi/wrap/fortran_values.hpp"

#include <cstdint>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace cryo::mpi {

namespace {

TEST(FortranValues, CFindsTheNumberAtTheWord)
{
    FortranValue *value = make_fortran_value(-1234567890123);
    void *word = value;
    EXPECT_EQ(fortran_value(word), value);
    EXPECT_EQ(pointer_of_c(word), word);
    EXPECT_EQ(*static_cast<long *>(word), -1234567890123);
    drop_fortran_value(value);
}

// What the library stores for it is not the record, which then would be released once for each.
TEST(FortranValues, WhatCSetsIsNoRecordAndComesBack)
{
    FortranValue *value = make_fortran_value(7);
    for (size_t byte = 0; byte < sizeof(value->number); byte++) {
        void *pointer = reinterpret_cast<char *>(value) + byte;
        void *word = word_of_c(pointer);
        EXPECT_EQ(fortran_value(word), nullptr) << byte;
        EXPECT_EQ(pointer_of_c(word), pointer) << byte;
    }
    drop_fortran_value(value);
    // The number is gone; its address still is an address.
    void *word = word_of_c(value);
    EXPECT_EQ(fortran_value(word), nullptr);
    EXPECT_EQ(pointer_of_c(word), value);
}

TEST(FortranValues, OtherPointersStayAsTheyAre)
{
    long number = 5;
    for (void *pointer : {static_cast<void *>(&number), static_cast<void *>(nullptr),
                          reinterpret_cast<void *>(UINTPTR_MAX)}) {
        EXPECT_EQ(word_of_c(pointer), pointer);
        EXPECT_EQ(pointer_of_c(pointer), pointer);
        EXPECT_EQ(fortran_value(pointer), nullptr);
    }
}

TEST(FortranValues, NoTwoWordsOfManyAreTheSame)
{
    constexpr long many = 10000; // more than a block
    std::vector<FortranValue *> made;
    std::set<void *> words;
    for (long i = 0; i < many; i++) {
        made.push_back(make_fortran_value(i));
        words.insert(made.back());
        words.insert(word_of_c(made.back()));
    }
    EXPECT_EQ(words.size(), 2U * many);
    for (long i = 0; i < many; i++) {
        EXPECT_EQ(made[i]->number, i);
        drop_fortran_value(made[i]);
    }
}

} // namespace

} // namespace cryo::mpi
