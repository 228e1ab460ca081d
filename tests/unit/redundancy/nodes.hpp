// SPDX-License-Identifier: Apache-2.0
//
// A directory for each node of a set, with files of random bytes.
//
//     Nodes nodes("xor", {{5000}, {0, 70000}, {}});      // sizes of each node's files
//     ASSERT_TRUE(nodes.encode());
//     nodes.lose(1);
//     ASSERT_TRUE(nodes.rebuild({1}));
//     EXPECT_TRUE(nodes.is_whole(1));
#pragma once

#include "image/checksum.hpp"
#include "redundancy/encode.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::redundancy {

using Sizes = std::vector<std::vector<size_t>>;

class Nodes
{
  public:
    Nodes(const std::string &scheme, const Sizes &sizes, uint32_t block = smallest_block,
          unsigned seed = 1)
        : random_(seed)
    {
        umask(0077); // files that others may write are refused
        // In memory, if possible: whatever is rebuilt is synced.
        const std::filesystem::path parent = access("/dev/shm", W_OK) == 0
                                                 ? std::filesystem::path("/dev/shm")
                                                 : std::filesystem::temp_directory_path();
        std::string name = parent / "cryo-set.XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        base_ = name;
        const Result<Scheme> parsed = parse_scheme(scheme);
        EXPECT_TRUE(parsed);
        set_ = {.id = "set", .scheme = *parsed, .block = block, .members = {}};
        for (size_t i = 0; i < sizes.size(); i++)
            add(i, sizes[i]);
    }
    ~Nodes()
    {
        std::error_code ignored;
        std::filesystem::remove_all(base_, ignored);
    }
    Nodes(const Nodes &) = delete;
    Nodes &operator=(const Nodes &) = delete;

    Description &set() { return set_; }
    size_t count() const { return set_.members.size(); }
    std::filesystem::path at(size_t node) const { return base_ / ("node" + std::to_string(node)); }
    std::filesystem::path file(size_t node, size_t index = 0) const
    {
        return at(node) / set_.members[node].files[index].name;
    }
    std::filesystem::path parity(size_t node) const { return at(node) / parity_name; }

    Directory open(size_t node) const
    {
        Result<Directory> directory = Directory::open(at(node));
        EXPECT_TRUE(directory);
        return std::move(*directory);
    }
    std::vector<Directory> open_all() const
    {
        std::vector<Directory> all;
        for (size_t i = 0; i < count(); i++)
            all.push_back(open(i));
        return all;
    }

    // Keeps what all nodes have after it.
    Result<void> encode()
    {
        Result<void> done = redundancy::encode(set_, open_all(), Trust(), false);
        if (done) {
            for (size_t i = 0; i < count(); i++)
                saved_[i] = everything(i);
        }
        return done;
    }

    // The node comes back empty, as another one in its place.
    void lose(size_t node)
    {
        std::filesystem::remove_all(at(node));
        std::filesystem::create_directory(at(node));
        lost_.insert(node);
    }

    Result<Rebuilt> rebuild(const std::set<size_t> &which) const
    {
        const std::vector<Directory> all = open_all();
        std::vector<const Directory *> there;
        std::map<uint32_t, const Directory *> to;
        for (size_t i = 0; i < count(); i++) {
            if (!lost_.contains(i))
                there.push_back(&all[i]);
            if (which.contains(i))
                to[static_cast<uint32_t>(i)] = &all[i];
        }
        return redundancy::rebuild(there, to, Trust());
    }
    Result<Rebuilt> check() const { return rebuild({}); }

    // Whether the node has what it had when the set was encoded, parity and names included.
    bool is_whole(size_t node) const { return everything(node) == saved_.at(node); }
    bool is_empty(size_t node) const
    {
        for (const auto &one : std::filesystem::recursive_directory_iterator(at(node))) {
            if (!one.is_directory())
                return false;
        }
        return true;
    }

    static void flip(const std::filesystem::path &path, uint64_t at)
    {
        std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                                     std::filesystem::perm_options::add);
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(static_cast<std::streamoff>(at));
        const auto byte = static_cast<char>(file.get() ^ 0x10);
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte);
        EXPECT_TRUE(file.good());
    }
    static void cut(const std::filesystem::path &path, uint64_t size)
    {
        std::filesystem::permissions(path, std::filesystem::perms::owner_write,
                                     std::filesystem::perm_options::add);
        std::filesystem::resize_file(path, size);
    }
    static std::string read(const std::filesystem::path &path)
    {
        std::stringstream text;
        std::ifstream in(path, std::ios::binary);
        if (std::filesystem::file_size(path) > 0)
            text << in.rdbuf();
        return text.str();
    }

  private:
    void add(size_t node, const std::vector<size_t> &sizes)
    {
        SetMember member{.node = "n" + std::to_string(node), .files = {}};
        std::filesystem::create_directory(at(node));
        for (size_t i = 0; i < sizes.size(); i++) {
            const std::string rank = std::to_string(node * 10 + i);
            const std::string name = "opal_snapshot_" + rank + ".ckpt/cryo_context.4" + rank;
            std::string bytes(sizes[i], '\0');
            for (char &byte : bytes)
                byte = static_cast<char>(random_());
            std::filesystem::create_directory(at(node) / std::filesystem::path(name).parent_path());
            std::ofstream(at(node) / name, std::ios::binary) << bytes;
            const image::Bytes all(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
            member.files.push_back(
                {.name = name, .bytes = bytes.size(), .checksum = image::checksum128(all).hex()});
        }
        set_.members.push_back(std::move(member));
    }

    std::map<std::string, std::string> everything(size_t node) const
    {
        std::map<std::string, std::string> all;
        for (const auto &one : std::filesystem::recursive_directory_iterator(at(node))) {
            if (!one.is_directory())
                all[std::filesystem::relative(one.path(), at(node))] = read(one.path());
        }
        return all;
    }

    std::mt19937 random_;
    std::filesystem::path base_;
    Description set_;
    std::set<size_t> lost_;
    std::map<size_t, std::map<std::string, std::string>> saved_;
};

} // namespace cryo::redundancy
