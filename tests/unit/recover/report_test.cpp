// SPDX-License-Identifier: Apache-2.0
//
// Lines that come in pieces, and what is no line.
#include "base/pipe.hpp"
#include "recover/report.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using cryo::make_pipe;
using cryo::PipeEnds;
using cryo::recover::flag_in;
using cryo::recover::process_in;
using cryo::recover::Report;

namespace {

void put(const PipeEnds &pipe, const std::string &text)
{
    ASSERT_EQ(write(pipe.write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

} // namespace

TEST(Report, LinesComeWholeAndInOrder)
{
    PipeEnds pipe = std::move(*make_pipe());
    Report report;
    report.begin(std::move(pipe.read));
    put(pipe, "{\"begun\": true}\n{\"run");
    auto lines = report.read();
    ASSERT_EQ(lines.size(), 1U);
    EXPECT_TRUE(lines[0].contains("begun"));
    put(pipe, "ning\": true}\nnonsense\n[1]\n{\"ended\": true}\n{\"cut");
    lines = report.read();
    ASSERT_EQ(lines.size(), 2U);
    EXPECT_TRUE(lines[0].contains("running"));
    EXPECT_TRUE(lines[1].contains("ended"));
    EXPECT_GE(report.fd(), 0);
    pipe.write.reset();
    EXPECT_TRUE(report.read().empty());
    EXPECT_EQ(report.fd(), -1);
    EXPECT_TRUE(report.read().empty());
}

// A daemon that writes no end of a line does not fill the supervisor's memory, nor keep it from
// looking at signals.
TEST(Report, NobodyIsReadForEver)
{
    PipeEnds pipe = std::move(*make_pipe());
    Report report;
    report.begin(std::move(pipe.read));
    const pid_t writer = fork();
    ASSERT_GE(writer, 0);
    if (writer == 0) {
        signal(SIGPIPE, SIG_DFL); // a test may be started with it ignored
        report.end();
        const std::string much(1 << 16, 'x');
        while (write(pipe.write.get(), much.data(), much.size()) > 0)
            ;
        _exit(0);
    }
    pipe.write.reset();
    size_t looks = 0;
    for (pollfd ready = {report.fd(), POLLIN, 0}; report.fd() >= 0; looks++) {
        ASSERT_EQ(poll(&ready, 1, 60'000), 1);
        EXPECT_TRUE(report.read().empty());
        ASSERT_LT(looks, size_t(1) << 20);
    }
    EXPECT_GT(looks, 1U);
    int status = 0;
    ASSERT_EQ(waitpid(writer, &status, 0), writer); // by SIGPIPE
    EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(Report, AFieldOfAnotherTypeIsNotThere)
{
    const nlohmann::json line = {{"yes", true},   {"text", "true"}, {"pid", 412},
                                 {"half", 0.5},   {"none", -1},     {"many", int64_t(1) << 40},
                                 {"list", {1, 2}}};
    EXPECT_EQ(flag_in(line, "yes"), true);
    for (const char *name : {"text", "pid", "list", "missing"})
        EXPECT_FALSE(flag_in(line, name)) << name;
    EXPECT_EQ(process_in(line, "pid"), 412);
    for (const char *name : {"yes", "text", "half", "none", "many", "list", "missing"})
        EXPECT_EQ(process_in(line, name), 0) << name;
}
