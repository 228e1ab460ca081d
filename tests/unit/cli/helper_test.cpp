// SPDX-License-Identifier: Apache-2.0
#include "cli/helper.hpp"

#include "base/pipe.hpp"

#include <cerrno>
#include <gtest/gtest.h>
#include <unistd.h>
#include <utility>

namespace cryo::cli {

namespace {

Result<nlohmann::json> run_script(const std::string &script, const HelperOptions &options = {})
{
    return run_helper({"/bin/sh", "-c", script}, options);
}

} // namespace

TEST(Helper, TellsHowFarItIsAndThenItsResult)
{
    std::vector<std::pair<uint64_t, uint64_t>> told;
    const Result<nlohmann::json> said = run_script(
        R"(echo '{"done":1,"of":9}'; echo '{"done":9,"of":9}'; echo '{"place":"there"}')",
        {.progress = [&](uint64_t done, uint64_t total) { told.emplace_back(done, total); }});
    ASSERT_TRUE(said) << said.error().text();
    EXPECT_EQ("there", said->at("place"));
    EXPECT_EQ((std::vector<std::pair<uint64_t, uint64_t>>{{1, 9}, {9, 9}}), told);
}

TEST(Helper, HasAnErrorOfItsOwn)
{
    const Result<nlohmann::json> said =
        run_script(R"(echo '{"error":{"code":28,"text":"no room"}}'; exit 1)");
    ASSERT_FALSE(said);
    EXPECT_EQ(ENOSPC, said.error().code());
    EXPECT_EQ("no room", said.error().text());
}

TEST(Helper, IsNamedIfItEndsEarly)
{
    for (const auto &[script, how] :
         {std::pair("exit 3", "sh has ended before it was done (status 3)"),
          std::pair("echo nonsense; exit 0", "sh has ended before it was done (status 0)"),
          std::pair("kill -9 $$", "sh was ended by signal 9, before it was done")}) {
        const Result<nlohmann::json> said = run_script(script);
        ASSERT_FALSE(said);
        EXPECT_EQ(EIO, said.error().code());
        EXPECT_EQ(how, said.error().text());
    }
    const Result<nlohmann::json> none = run_helper({"/no/program"}, {});
    ASSERT_FALSE(none);
    EXPECT_EQ("program has ended before it was done (status 127)", none.error().text());
}

TEST(Helper, ReadsWhatItIsGiven)
{
    Result<PipeEnds> ends = make_pipe();
    ASSERT_TRUE(ends);
    ASSERT_EQ(6, write(ends->write.get(), "[1,2]\n", 6));
    ends->write.reset();
    const Result<nlohmann::json> said =
        run_script(R"(read line; echo "{\"read\":$line}")", {.input = ends->read.get()});
    ASSERT_TRUE(said) << said.error().text();
    EXPECT_EQ(nlohmann::json::array({1, 2}), said->at("read"));
    EXPECT_EQ("", run_script(R"(read line; echo "{\"read\":\"$line\"}")")->at("read"));
}

} // namespace cryo::cli
