// SPDX-License-Identifier: Apache-2.0
// TCP's congestion control comes back, or it is said which one did not.
#include "own_contexts.hpp"

#include "resources/socket/open_more.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string_view>

namespace cryo::resources {

namespace {

std::string congestion_of(const Fd &fd)
{
    char name[16] = "";
    socklen_t size = sizeof(name);
    EXPECT_EQ(getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
    return name;
}

// A socket that had this one: what a new one in its place has, and what is said.
class Congestion : public testing::Test
{
  protected:
    void restore(std::string_view name)
    {
        OwnSaving saving;
        saving.add(Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)));
        image::Socket socket;
        socket.open_file = saving.seen()[0].open_file;
        image::SocketMore more;
        more.socket = socket.open_file;
        more.congestion = name;
        saving.records().add(more);
        OwnOpening opening(saving);
        ASSERT_TRUE(opening.keep(Fd(dup(made_.get())), socket.open_file));
        choose_congestion(opening, made_.get(), socket);
        said_ = opening.notices();
    }

    Fd made_{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    std::vector<std::string> said_;
};

TEST_F(Congestion, IsThereAgain)
{
    restore("reno"); // every kernel has it
    EXPECT_EQ(congestion_of(made_), "reno");
    EXPECT_TRUE(said_.empty());
}

TEST_F(Congestion, IsTheDefaultWhereTheKernelDoesNotHaveIt)
{
    const std::string usual = congestion_of(made_);
    restore("not-there");
    EXPECT_EQ(congestion_of(made_), usual);
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_NE(said_[0].find("congestion control not-there"), std::string::npos) << said_[0];
    EXPECT_NE(said_[0].find("this kernel does not have it"), std::string::npos) << said_[0];
}

TEST_F(Congestion, IsTheDefaultWhereNoneWasSaved)
{
    const std::string usual = congestion_of(made_);
    restore("");
    EXPECT_EQ(congestion_of(made_), usual);
    EXPECT_TRUE(said_.empty());
}

} // namespace

} // namespace cryo::resources
