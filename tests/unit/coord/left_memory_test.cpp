// SPDX-License-Identifier: Apache-2.0
// What restarts of jobs that were killed have left in /dev/shm.
#include "coord/left_memory.hpp"

#include "base/fd.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

constexpr size_t page = 4096;
constexpr const char *job = "12-0a1b2c3d";

class LeftMemory : public testing::Test
{
  protected:
    LeftMemory()
    {
        char pattern[] = "/dev/shm/cryo-unit.XXXXXX";
        EXPECT_NE(nullptr, mkdtemp(pattern));
        dir_ = pattern;
    }
    ~LeftMemory() override { fs::remove_all(dir_); }
    LeftMemory(const LeftMemory &) = delete;
    LeftMemory &operator=(const LeftMemory &) = delete;

    std::string add(const std::string &name) const
    {
        std::string path = dir_ + "/" + name;
        std::ofstream(path) << std::string(page, 'x');
        return path;
    }
    Names names() const
    {
        Names found;
        for (const auto &entry : fs::directory_iterator(dir_))
            found.insert(entry.path().filename());
        return found;
    }

    std::string dir_;
};

} // namespace

TEST(LeftMemoryNames, AreThoseOfTheJob)
{
    EXPECT_TRUE(is_left_memory("segment.cryo.12-0a1b2c3d", job));
    EXPECT_TRUE(is_left_memory("a.cryo.b.cryo.12-0a1b2c3d.4711", job));
    for (const char *other :
         {"segment", "segment.cryo.", "segment.cryo.backup", "segment.cryo.12-0a1b2c3",
          "segment.cryo.12-0a1b2c3de", "segment.cryo.12-0a1b2c3d.", "segment.cryo.12-0a1b2c3d.x",
          "segment.cryo.12-0a1b2c3d.4711.1", "segment.cryo.13-0a1b2c3d", ".cryo.12-0a1b2c3d"})
        EXPECT_FALSE(is_left_memory(other, job)) << other;
    EXPECT_FALSE(is_left_memory("segment.cryo.", ""));
}

TEST_F(LeftMemory, OnlyWhatNoProcessHasGoes)
{
    add("left.cryo.12-0a1b2c3d");
    ASSERT_EQ(0, chmod(add("left.cryo.12-0a1b2c3d.4711").c_str(), 0));
    add("left.cryo.backup");
    add("left.cryo.13-0a1b2c3d");
    fs::create_directory(dir_ + "/directory.cryo.12-0a1b2c3d");
    fs::create_symlink("left.cryo.backup", dir_ + "/link.cryo.12-0a1b2c3d");
    const Fd open_one(open(add("open.cryo.12-0a1b2c3d").c_str(), O_RDWR | O_CLOEXEC));
    Fd mapped(open(add("mapped.cryo.12-0a1b2c3d").c_str(), O_RDWR | O_CLOEXEC));
    void *memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, mapped.get(), 0);
    ASSERT_NE(MAP_FAILED, memory);
    mapped.reset();
    const Names others = {"left.cryo.backup", "left.cryo.13-0a1b2c3d", "directory.cryo.12-0a1b2c3d",
                          "link.cryo.12-0a1b2c3d"};
    Names stay = others;
    stay.insert({"open.cryo.12-0a1b2c3d", "mapped.cryo.12-0a1b2c3d"});
    EXPECT_FALSE(sweep_left_memory(dir_, job));
    EXPECT_EQ(stay, names());
    ASSERT_EQ(0, munmap(memory, page));
    stay.erase("mapped.cryo.12-0a1b2c3d");
    EXPECT_FALSE(sweep_left_memory(dir_, job)) << "one is open";
    EXPECT_EQ(stay, names());
    EXPECT_TRUE(sweep_left_memory(dir_, "14-0a1b2c3d"));
}

} // namespace cryo::coord
