// SPDX-License-Identifier: Apache-2.0
// Which fruitless tests are answered without asking the library, and which never.
#include "mpi/rank/fruitless.hpp"

#include <gtest/gtest.h>

namespace cryo::mpi::rank {

volatile bool must_attend;
bool several_threads;
unsigned long mpi_calls;
Fruitless<MPI_Request> fruitless_tests;
Fruitless<long> fruitless_probes;

namespace {

// A program that tests requests.
class FruitlessTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        must_attend = false;
        several_threads = false;
        mpi_calls = 1;
        fruitless_tests = {};
        fruitless_probes = {};
    }

    // A fruitless MPI_Testall of the first `count` requests. Whether the library was asked.
    bool asks(int count = 1)
    {
        int flag = 1;
        if (in_vain_again(count, requests_, &flag, MPI_STATUSES_IGNORE)) {
            EXPECT_EQ(flag, 0);
            return false;
        }
        mpi_calls++; // the test enters the library
        fruitless_tests.were(count, requests_);
        return true;
    }

    // Tests until one is answered without the library. False: none ever is.
    bool gets_impatient()
    {
        for (int i = 0; i < 10'000'000; i++) {
            if (!asks())
                return true;
        }
        return false;
    }

    static void compute(unsigned long long ticks)
    {
        for (const auto since = __rdtsc(); __rdtsc() - since < ticks;) {
        }
    }

    int objects_[10] = {};
    MPI_Request requests_[10] = {
        reinterpret_cast<MPI_Request>(&objects_[0]), reinterpret_cast<MPI_Request>(&objects_[1]),
        reinterpret_cast<MPI_Request>(&objects_[2]), reinterpret_cast<MPI_Request>(&objects_[3]),
        reinterpret_cast<MPI_Request>(&objects_[4]), reinterpret_cast<MPI_Request>(&objects_[5]),
        reinterpret_cast<MPI_Request>(&objects_[6]), reinterpret_cast<MPI_Request>(&objects_[7]),
        reinterpret_cast<MPI_Request>(&objects_[8]), reinterpret_cast<MPI_Request>(&objects_[9])};
};

TEST_F(FruitlessTest, WhoTestsAllTheTimeDoesNotAlwaysAsk)
{
    EXPECT_TRUE(asks());
    EXPECT_TRUE(gets_impatient());
}

TEST_F(FruitlessTest, TheLibraryIsAskedAgainAndAgain)
{
    ASSERT_TRUE(gets_impatient());
    for (int times = 0; times < 100; times++) {
        int more = 0;
        while (!asks())
            ASSERT_LT(++more, 10000);
    }
}

TEST_F(FruitlessTest, AnswersOfTheOthers)
{
    ASSERT_TRUE(gets_impatient());
    int flag = 1;
    int index = 5;
    // For one request, MPI_Test and MPI_Testany ask the same question.
    while (!in_vain_again(1, requests_, &index, &flag, MPI_STATUS_IGNORE))
        ASSERT_TRUE(gets_impatient());
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(index, MPI_UNDEFINED);
}

TEST_F(FruitlessTest, Probes)
{
    int flag = 1;
    const auto comm = reinterpret_cast<MPI_Comm>(&objects_[0]);
    const auto asks_for = [&](int source, int tag) {
        if (in_vain_again(source, tag, comm, &flag, MPI_STATUS_IGNORE))
            return false;
        mpi_calls++;
        fruitless_probes.were(Probed::count, Probed(source, tag, comm).words);
        return true;
    };
    while (asks_for(1, 5)) {
    }
    EXPECT_EQ(flag, 0);
    EXPECT_TRUE(asks_for(1, 6)) << "another tag";
    EXPECT_TRUE(asks_for(2, 6)) << "another source";
    EXPECT_TRUE(asks()) << "what was probed for says nothing of requests";
}

TEST_F(FruitlessTest, AnotherCallBetween)
{
    ASSERT_TRUE(gets_impatient());
    mpi_calls++;
    EXPECT_TRUE(asks());
    EXPECT_TRUE(asks()) << "all of it began anew";
}

TEST_F(FruitlessTest, OtherRequests)
{
    ASSERT_TRUE(gets_impatient());
    EXPECT_TRUE(asks(2));
    ASSERT_TRUE(gets_impatient());
    requests_[0] = requests_[1];
    EXPECT_TRUE(asks());
}

TEST_F(FruitlessTest, SomethingFromTheTree)
{
    ASSERT_TRUE(gets_impatient());
    must_attend = true;
    EXPECT_TRUE(asks());
}

TEST_F(FruitlessTest, WhoComputesBetweenAlwaysAsks)
{
    for (int i = 0; i < 1000; i++) {
        EXPECT_TRUE(asks());
        compute(10000);
    }
}

// A message in pieces needs a library call for each; few tests between much work must suffice.
TEST_F(FruitlessTest, ShortBurstsBetweenWorkAsk)
{
    ASSERT_TRUE(gets_impatient());
    compute(1000000);
    for (int i = 0; i < 8; i++) // the rest of the tests until the clock is read again
        asks();
    for (int burst = 0; burst < 100; burst++) {
        compute(1000000);
        EXPECT_TRUE(asks());
        EXPECT_TRUE(asks());
    }
}

TEST_F(FruitlessTest, ManyRequestsAndManyThreadsAlwaysAsk)
{
    for (int i = 0; i < 100000; i++)
        ASSERT_TRUE(asks(9));
    several_threads = true;
    for (int i = 0; i < 100000; i++)
        ASSERT_TRUE(asks());
}

} // namespace

} // namespace cryo::mpi::rank
