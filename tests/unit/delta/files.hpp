// SPDX-License-Identifier: Apache-2.0
//
// Shared by the delta tests: files whose blocks are identified by a number.
//
//     Blocks file(12, 4096);          // 12 blocks
//     file.change(3);
//     spew(path, file.bytes());
#pragma once

#include <random>
#include <vector>

#include "delta/version.hpp"
#include "sample.hpp"

namespace cryo::delta {

using image::Scratch;
using image::slurp;
using image::spew;

class Blocks
{
  public:
    Blocks(size_t count, size_t block, uint64_t seed = 1) : block_(block), random_(seed)
    {
        bytes_.resize(count * block);
        for (size_t i = 0; i < count; i++)
            change(i);
    }
    void change(size_t i)
    {
        for (size_t at = i * block_; at < std::min((i + 1) * block_, bytes_.size()); at++)
            bytes_[at] = uint8_t(random_() >> 7);
    }
    void zero(size_t i) { std::fill_n(bytes_.begin() + long(i * block_), block_, uint8_t(0)); }
    void resize(size_t bytes) { bytes_.resize(bytes, 'x'); }
    const std::vector<uint8_t> &bytes() const { return bytes_; }

  private:
    size_t block_;
    std::minstd_rand random_;
    std::vector<uint8_t> bytes_;
};

// Bytes in memory as a source, for tests that need no file.
class Memory : public ByteSource
{
  public:
    explicit Memory(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
    const std::string &name() const override { return name_; }
    uint64_t size() const override { return bytes_.size(); }
    Result<void> read(uint64_t offset, MutableBytes to) override
    {
        if (offset > bytes_.size() || to.size() > bytes_.size() - offset)
            return Error(EINVAL, "beyond the end");
        std::copy_n(bytes_.begin() + long(offset), to.size(), to.begin());
        return {};
    }

  private:
    std::string name_ = "memory";
    std::vector<uint8_t> bytes_;
};

template <class T>
std::string error_of(const Result<T> &result)
{
    return result ? "" : result.error().text();
}

// A sink for output that need not reach the disk.
inline std::unique_ptr<image::Sink> scratch_sink(const std::string &path)
{
    auto sink = image::FileSink::create(
        path, {.existing = image::Existing::replace, .direct = false, .sync = false, .mode = 0600});
    EXPECT_TRUE(sink) << error_of(sink);
    return std::move(*sink);
}

// A sink that keeps the bytes written to it, if they are committed.
class Kept : public image::Sink
{
  public:
    Result<void> write(std::span<iovec> pieces) override
    {
        for (const iovec &p : pieces) {
            auto *from = static_cast<const uint8_t *>(p.iov_base);
            bytes.insert(bytes.end(), from, from + p.iov_len);
        }
        return {};
    }
    Result<void> commit() override
    {
        committed = true;
        return {};
    }
    std::vector<uint8_t> bytes;
    bool committed = false;
};

} // namespace cryo::delta
