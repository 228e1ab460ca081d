// SPDX-License-Identifier: Apache-2.0
// The file for Prometheus: its text, and that it is written into one's own directory only, whatever
// is there.
#include "keeper/metrics.hpp"

#include "base/contents.hpp"
#include "sample.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

namespace fs = std::filesystem;

class MetricsTest : public testing::Test
{
  protected:
    void SetUp() override { ASSERT_EQ(chmod(directory().c_str(), 0755), 0); }
    std::string directory() const { return dir_.path().string(); }
    std::string file() const { return dir_ / "cryo-412.prom"; }
    Metrics open(uint64_t restarts = 0) const
    {
        Result<Metrics> metrics = Metrics::open(directory(), 412, restarts);
        EXPECT_TRUE(metrics) << metrics.error().text();
        return std::move(*metrics);
    }

    image::Scratch dir_;
};

TEST_F(MetricsTest, Text)
{
    Metrics metrics = open(2);
    metrics.name_command("so\"l\\ver\n");
    metrics.name_command("another");
    metrics.failed();
    const std::string labels = R"({pid="412",command="so\"l\\ver\\n"} )";
    const std::string before = metrics.text();
    EXPECT_NE(before.find("# TYPE cryo_checkpoints_total counter\ncryo_checkpoints_total" + labels +
                          "0\n"),
              std::string::npos)
        << before;
    EXPECT_NE(before.find("cryo_checkpoint_failures_total" + labels + "1\n"), std::string::npos);
    EXPECT_NE(before.find("cryo_restarts_total" + labels + "2\n"), std::string::npos);
    EXPECT_EQ(before.find("timestamp"), std::string::npos);

    metrics.saved(0.0125, 4096, 1'800'000'000.25);
    const std::string after = metrics.text();
    EXPECT_NE(after.find("cryo_checkpoints_total" + labels + "1\n"), std::string::npos) << after;
    EXPECT_NE(after.find("cryo_checkpoint_stop_seconds" + labels + "0.012500\n"),
              std::string::npos);
    EXPECT_NE(after.find("cryo_image_bytes" + labels + "4096\n"), std::string::npos);
    metrics.saved(0.5, 1000, 1'800'000'001);
    const std::string later = metrics.text();
    EXPECT_NE(later.find("cryo_stopped_seconds_total" + labels + "0.512500\n"), std::string::npos)
        << later;
    EXPECT_NE(later.find("cryo_written_bytes_total" + labels + "5096\n"), std::string::npos);
    EXPECT_NE(later.find("cryo_image_bytes" + labels + "1000\n"), std::string::npos);
    EXPECT_NE(after.find("cryo_last_checkpoint_timestamp_seconds" + labels + "1800000000.250\n"),
              std::string::npos);
}

TEST_F(MetricsTest, ForAllReadersWhateverTheUmask)
{
    Metrics metrics = open();
    const mode_t before = umask(0077);
    const Result<void> written = metrics.write();
    umask(before);
    ASSERT_TRUE(written) << written.error().text();
    struct stat status = {};
    ASSERT_EQ(lstat(file().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode, mode_t(S_IFREG | 0644));
    const Result<std::string> text = contents(file());
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, metrics.text());
    EXPECT_EQ(std::distance(fs::directory_iterator(directory()), {}), 1);
    metrics.remove();
    EXPECT_FALSE(fs::exists(file()));
}

TEST_F(MetricsTest, LinksAreReplacedAndNotFollowed)
{
    Metrics metrics = open();
    std::ofstream(dir_ / "precious") << "kept";
    fs::create_symlink("precious", file());
    fs::create_symlink("precious", dir_ / ".cryo-412.prom.tmp");
    ASSERT_TRUE(metrics.write());
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(file())));
    const Result<std::string> text = contents(dir_ / "precious");
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, "kept");
}

TEST_F(MetricsTest, HalfAFileIsNotPublished)
{
    Metrics metrics = open();
    ASSERT_TRUE(metrics.write());
    const std::string before = metrics.text();
    metrics.saved(0.5, 1, 1);
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit little = {before.size() / 2, limit.rlim_max};
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little), 0);
    const Result<void> written = metrics.write();
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    signal(SIGXFSZ, handler);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code(), EFBIG);
    const Result<std::string> text = contents(file());
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, before);
    EXPECT_EQ(std::distance(fs::directory_iterator(directory()), {}), 1);
}

TEST_F(MetricsTest, RemovesItsOwnFileOnly)
{
    Metrics metrics = open();
    Metrics later = open();
    ASSERT_TRUE(metrics.write());
    ASSERT_TRUE(later.write());
    metrics.remove();
    EXPECT_TRUE(fs::exists(file()));
    later.remove();
    EXPECT_FALSE(fs::exists(file()));
    std::ofstream(file()) << "another one's";
    later.remove();
    EXPECT_TRUE(fs::exists(file()));
}

TEST_F(MetricsTest, DirectoryOfOneIsOwnOnly)
{
    const auto code = [&](const std::string &path) {
        const Result<Metrics> metrics = Metrics::open(path, 412, 0);
        return metrics ? 0 : metrics.error().code();
    };
    EXPECT_EQ(code(dir_ / "missing"), ENOENT);
    fs::create_directory_symlink(directory(), dir_ / "link");
    EXPECT_EQ(code(dir_ / "link"), ELOOP);
    std::ofstream(dir_ / "file") << "";
    EXPECT_EQ(code(dir_ / "file"), ENOTDIR);
    ASSERT_EQ(chmod(directory().c_str(), 0775), 0);
    EXPECT_EQ(code(directory()), EACCES);
    const std::string said = Metrics::open(directory(), 412, 0).error().text();
    EXPECT_NE(said.find("directory of your own"), std::string::npos) << said;
    EXPECT_EQ(said.find("image is a program"), std::string::npos) << said;
    ASSERT_EQ(chmod(directory().c_str(), 0755), 0);
    EXPECT_EQ(code(directory()), 0);
    if (geteuid() == 0 && chown(directory().c_str(), 12345, 12345) == 0) {
        EXPECT_EQ(code(directory()), EACCES);
    }
}

TEST_F(MetricsTest, CommandOfAProcess)
{
    EXPECT_FALSE(command_of(getpid()).empty());
    EXPECT_EQ(command_of(getpid()).find('\n'), std::string::npos);
    EXPECT_EQ(command_of(-1), "");
}

} // namespace

} // namespace cryo::keeper
