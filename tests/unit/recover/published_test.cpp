// SPDX-License-Identifier: Apache-2.0
//
// What cr_status believes of what supervisors publish.
#include "recover/published.hpp"

#include "sample.hpp"

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>

namespace cryo::recover {
namespace {

namespace fs = std::filesystem;

class PublishedTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        runtime_ = dir_ / "runtime";
        setenv("CRYO_RUNTIME_DIR", runtime_.c_str(), 1);
    }
    void TearDown() override { unsetenv("CRYO_RUNTIME_DIR"); }
    static Published own()
    {
        Published said = from_here();
        said.supervisor = said.program = getpid();
        said.supervisor_started = said.program_started = started(getpid());
        said.command = "./app";
        return said;
    }
    std::vector<Seen> seen() const { return look_into(runtime_, geteuid()); }

    image::Scratch dir_;
    fs::path runtime_;
};

TEST_F(PublishedTest, IsSeenUntilItIsWithdrawn)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher) << publisher.error().text();
    EXPECT_TRUE(seen().empty());
    ASSERT_TRUE(publisher->publish(own()));
    ASSERT_EQ(seen().size(), 1U);
    EXPECT_EQ(seen()[0].standing, Standing::running);
    EXPECT_EQ(seen()[0].said.command, "./app");
    publisher->withdraw();
    EXPECT_TRUE(seen().empty());
}

TEST_F(PublishedTest, IsForItsUserAlone)
{
    ASSERT_TRUE(Publisher::open());
    struct stat status = {};
    for (const fs::path &path : {runtime_, runtime_ / "supervised"}) {
        ASSERT_EQ(stat(path.c_str(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777, 0700U);
    }
}

TEST_F(PublishedTest, IsNotBelievedWhereOthersMayWrite)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher);
    ASSERT_TRUE(publisher->publish(own()));
    EXPECT_TRUE(look_into(runtime_, geteuid() + 1).empty());
    for (const fs::path &path : {runtime_, runtime_ / "supervised"}) {
        fs::permissions(path, fs::perms(0770));
        EXPECT_TRUE(seen().empty()) << path;
        EXPECT_FALSE(Publisher::open()) << path;
        fs::permissions(path, fs::perms(0700));
    }
    fs::rename(runtime_ / "supervised", runtime_ / "moved");
    fs::create_directory_symlink(runtime_ / "moved", runtime_ / "supervised");
    EXPECT_TRUE(seen().empty());
    EXPECT_FALSE(Publisher::open());
}

TEST_F(PublishedTest, IsNotBelievedOfProcessesThatAreOthers)
{
    Published said = own();
    said.program_started++; // another process has the number now
    EXPECT_EQ(standing_of(said, geteuid()), Standing::recovering);
    said = own();
    said.supervisor_started++;
    EXPECT_EQ(standing_of(said, geteuid()), Standing::unsupervised);
    said.program_started++;
    EXPECT_EQ(standing_of(said, geteuid()), Standing::ended);
    // Neither the supervisor nor the program is that user's.
    EXPECT_EQ(standing_of(own(), geteuid() + 1), Standing::ended);
    said = own();
    said.kept = false;
    EXPECT_EQ(standing_of(said, geteuid()), Standing::unsaved);
    said.pid_space++;
    EXPECT_EQ(standing_of(said, geteuid()), Standing::elsewhere);
    said.boot = "another";
    EXPECT_EQ(standing_of(said, geteuid()), Standing::ended);
}

TEST_F(PublishedTest, ThatIsDamagedOrOfAnotherNameIsSkipped)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher);
    ASSERT_TRUE(publisher->publish(own()));
    const fs::path good = runtime_ / "supervised" / std::to_string(getpid());
    fs::copy(good, runtime_ / "supervised" / "1");
    for (const char *text : {"", "[]", "{\"supervisor\": \"text\"}", "{\"supervisor\": 2"})
        std::ofstream(runtime_ / "supervised" / "2") << text;
    mkfifo((runtime_ / "supervised" / "3").c_str(), 0600);
    fs::create_symlink(good, runtime_ / "supervised" / "4");
    EXPECT_EQ(seen().size(), 1U);
}

TEST_F(PublishedTest, MayHaveALongCommand)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher);
    Published said = own();
    said.command.assign(size_t(3) << 20, 'x');
    ASSERT_TRUE(publisher->publish(said));
    ASSERT_EQ(seen().size(), 1U);
    EXPECT_TRUE(seen()[0].said.command.ends_with("xxx ..."));
}

TEST_F(PublishedTest, IsNothingRatherThanOutOfDate)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher);
    ASSERT_TRUE(publisher->publish(own()));
    const auto before = signal(SIGXFSZ, SIG_IGN);
    rlimit usual = {};
    getrlimit(RLIMIT_FSIZE, &usual);
    const rlimit full = {8, usual.rlim_max};
    setrlimit(RLIMIT_FSIZE, &full);
    const Result<void> done = publisher->publish(own());
    setrlimit(RLIMIT_FSIZE, &usual);
    signal(SIGXFSZ, before);
    EXPECT_FALSE(done);
    EXPECT_TRUE(seen().empty());
    EXPECT_TRUE(fs::is_empty(runtime_ / "supervised"));
}

TEST_F(PublishedTest, OfTheDeadIsSweptByTheNext)
{
    Result<Publisher> publisher = Publisher::open();
    ASSERT_TRUE(publisher);
    Published said = own();
    said.supervisor_started++;
    said.program_started++;
    ASSERT_TRUE(publisher->publish(said));
    ASSERT_EQ(seen().size(), 1U);
    EXPECT_EQ(seen()[0].standing, Standing::ended);
    ASSERT_TRUE(Publisher::open());
    EXPECT_TRUE(seen().empty());
}

} // namespace
} // namespace cryo::recover
