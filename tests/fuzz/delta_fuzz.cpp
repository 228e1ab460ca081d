// SPDX-License-Identifier: Apache-2.0
//
// Arbitrary bytes as a version of a file, a signature, or the state of a service directory. Checks,
// besides everything that must not happen with any image, that accepted contents match the digest.
//
// Environment: CRYO_FUZZ_FILE, the file that holds the bytes, named `state`; CRYO_FUZZ_BASE, the
// image on which deltas are based.
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

#include "delta/state.hpp"
#include "delta/version.hpp"
#include "environment.hpp"

using namespace cryo;
using namespace cryo::delta;
using namespace cryo::image;

namespace {

constexpr uint64_t kMost = 8 << 20; // zeros that an image may legitimately claim

std::string file;
std::string directory;
std::string base_file;

// A plain file that any delta may name as its base.
class Plain : public ByteSource
{
  public:
    const std::string &name() const override { return name_; }
    uint64_t size() const override { return 5 * kPageSize + 7; }
    Result<void> read(uint64_t offset, MutableBytes to) override
    {
        if (offset > size() || to.size() > size() - offset)
            abort(); // a read beyond the end must never be requested
        for (uint8_t &b : to)
            b = uint8_t(offset++ >> 12);
        return {};
    }

  private:
    std::string name_ = "plain";
};

Result<std::shared_ptr<Image>> find_base(const Digest &)
{
    auto image = Image::open(base_file);
    if (!image)
        unusable("the base image");
    return std::shared_ptr<Image>(std::move(*image));
}

void read_version()
{
    auto version = Version::open(file, find_base);
    if (!version)
        return;
    auto chain = (*version)->check_chain();
    (void)(*version)->partial_signature();
    auto base = Version::open(base_file);
    if (!base)
        unusable("the base image");
    auto signature = (*base)->signature(nullptr);
    if (!signature)
        unusable("the base's signature");
    (void)(*version)->signature(&*signature);
    if (!chain || (*version)->about().size > kMost)
        return;
    Plain plain;
    (void)(*version)->check_blocks();
    (void)check_contents(**version, &plain);
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
    file = from_environment("CRYO_FUZZ_FILE");
    base_file = from_environment("CRYO_FUZZ_BASE");
    directory = std::filesystem::path(file).parent_path();
    if (state_path(directory) != file)
        unusable("CRYO_FUZZ_FILE must be called state");
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Fd fd(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!fd || ftruncate(fd.get(), off_t(size)) ||
        (size && pwrite(fd.get(), data, size, 0) != ssize_t(size)))
        unusable("the file of the fuzzer");
    read_version();
    if (auto state = State::load(directory))
        for (const Entry &e : state->entries)
            (void)state->chain(e);
    return 0;
}
