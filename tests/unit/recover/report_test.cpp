// SPDX-License-Identifier: Apache-2.0
//
// Lines that come in pieces, and what is no line.
#include "base/pipe.hpp"
#include "recover/report.hpp"

#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

using cryo::make_pipe;
using cryo::PipeEnds;
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
