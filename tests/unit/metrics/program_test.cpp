// SPDX-License-Identifier: Apache-2.0
// Files of programs' metrics: what is written is read again, and nothing else is taken for it.
#include "metrics/program.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace cryo::metrics {

namespace {

constexpr std::string_view sample = R"(cryo_checkpoints_total{pid="412",command="solver"} 3
)";

Program some_program()
{
    Program program{.pid = 412, .command = R"(so"l\ver)"};
    program.values[checkpoints] = 3;
    program.values[stopped_last] = 0.0125;
    program.values[complete_at] = 1'800'000'000.25;
    return program;
}

TEST(Program, IsReadAsItWasWritten)
{
    const Program program = some_program();
    const Result<Program> again = parse(text_of(program), 412);
    ASSERT_TRUE(again) << again.error().text();
    EXPECT_EQ(again->command, program.command);
    EXPECT_EQ(again->values, program.values);
}

TEST(Program, UserIsAdded)
{
    Exposition text;
    add(text, some_program(), "alice");
    EXPECT_NE(text.text().find("cryo_checkpoints_total{pid=\"412\",command=\"so\\\"l\\\\ver\","
                               "user=\"alice\"} 3\n"),
              std::string::npos)
        << text.text();
}

TEST(Program, FamiliesOfALaterVersionAreLeftOut)
{
    const Result<Program> program =
        parse(std::string(sample) + "cryo_of_tomorrow{pid=\"412\",command=\"solver\"} 1\n", 412);
    ASSERT_TRUE(program) << program.error().text();
    EXPECT_EQ(program->values[checkpoints], 3);
}

TEST(Program, OtherTextIsRefused)
{
    ASSERT_TRUE(parse(sample, 412));
    const std::string labels = R"({pid="412",command="solver"})";
    for (const std::string &text : {
             std::string(),
             std::string("\n"),
             std::string("# HELP cryo_checkpoints_total x\n"),
             std::string(sample.substr(0, sample.size() - 1)), // half a file
             std::string("node_load1") + labels + " 1\n",      // of others
             std::string("cryo_checkpoints_total 3\n"),        // no labels
             std::string(R"(cryo_checkpoints_total{pid="413",command="x"} 3)") + "\n",
             std::string(R"(cryo_checkpoints_total{pid="412",command="x",user="root"} 3)") + "\n",
             std::string(R"(cryo_checkpoints_total{pid="412",command="x} 3)") + "\n",
             std::string(R"(cryo_checkpoints_total{pid="412",command="\x"} 3)") + "\n",
             std::string("cryo_checkpoints_total{pid=\"412\",command=\"a\x1b[2J\"} 3\n"),
             std::string("cryo_checkpoints_total{pid=\"412\",command=\"\xff\"} 3\n"),
             "cryo_checkpoints_total" + labels + " nan\n",
             "cryo_checkpoints_total" + labels + " inf\n",
             "cryo_checkpoints_total" + labels + " -1\n",
             "cryo_checkpoints_total" + labels + " 1e300\n",        // 301 digits
             "cryo_checkpoints_total" + labels + " 1 1700000000\n", // an hour of its own
             "cryo_checkpoints_total" + labels + " \n",
             std::string(sample) + std::string(sample), // twice
             std::string(sample) + R"(cryo_restarts_total{pid="412",command="y"} 3)" + "\n",
             std::string(sample) + std::string("\0\n", 2),
             "cryo_checkpoints_total{pid=\"412\",command=\"" + std::string(200, 'a') + "\"} 3\n",
         }) {
        const Result<Program> program = parse(text, 412);
        ASSERT_FALSE(program) << text;
        EXPECT_EQ(program.error().code(), EBADMSG) << text;
    }
}

TEST(Program, NamesOfFiles)
{
    EXPECT_EQ(file_name(412), "cryo-412.prom");
    EXPECT_EQ(pid_of("cryo-412.prom"), 412);
    for (const char *name : {"cryo-412.prom.tmp", ".cryo-412.prom.tmp", "cryo-.prom", "cryo-0.prom",
                             "cryo--1.prom", "cryo-0412.prom", "cryo-+412.prom", "cryo-4x.prom",
                             "cryo-99999999999.prom", "cryo-412", "other.prom", "", "cryo-.pro"})
        EXPECT_EQ(pid_of(name), std::nullopt) << name;
}

TEST(Exposition, FamiliesStandTogether)
{
    constexpr Family one = {"cryo_one", Type::gauge, "One.", 1};
    constexpr Family two = {"cryo_two_total", Type::counter, "Two."};
    Exposition text;
    text.add(one, {{"a", "x\ny"}}, 0.25);
    text.add(two, {}, 1e15);
    text.add(one, {{"a", "z"}}, 2);
    EXPECT_EQ(text.text(), "# HELP cryo_one One.\n# TYPE cryo_one gauge\n"
                           "cryo_one{a=\"x\\\\ny\"} 0.2\ncryo_one{a=\"z\"} 2.0\n"
                           "# HELP cryo_two_total Two.\n# TYPE cryo_two_total counter\n"
                           "cryo_two_total 1000000000000000\n");
}

} // namespace

} // namespace cryo::metrics
