// SPDX-License-Identifier: Apache-2.0
#include "resources/contents.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

constexpr uint64_t page_size = image::kPageSize;

} // namespace

Result<void> save_contents(image::ImageWriter &writer, const image::File &file, int source,
                           std::vector<uint8_t> &buffer, const std::function<void()> &at_work)
{
    for (uint64_t at = 0; at < file.size;) {
        const off_t data = lseek(source, static_cast<off_t>(at), SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break; // only a hole remains
        if (data >= 0)
            at = static_cast<uint64_t>(data) & ~(page_size - 1);
        const uint64_t want = std::min<uint64_t>(contents_part, file.size - at);
        size_t have = 0;
        while (have < want) {
            const ssize_t n =
                pread(source, &buffer[have], want - have, static_cast<off_t>(at + have));
            if (n < 0)
                return Error::from_errno(fmt::format("reading {}", file.path), errno);
            if (n == 0)
                break;
            have += static_cast<size_t>(n);
        }
        if (have == 0)
            break;
        const size_t pages = (have + page_size - 1) & ~(page_size - 1);
        memset(&buffer[have], 0, pages - have);
        if (Result<void> added =
                writer.add_pages(file.object, at / page_size, {buffer.data(), pages});
            !added)
            return added;
        at_work();
        at += pages;
    }
    return {};
}

Result<void> fill(image::Image &image, const image::File &file, int fd)
{
    if (ftruncate(fd, static_cast<off_t>(file.size)) != 0)
        return Error::from_errno(fmt::format("making {} as large as it was", file.path), errno);
    constexpr uint64_t most = contents_part / page_size;
    std::vector<uint8_t> buffer(contents_part);
    const uint64_t pages = (file.size + page_size - 1) / page_size;
    for (uint64_t page = 0; page < pages;) {
        Result<image::Run> run = image.find(file.object, page);
        if (!run)
            return run.error();
        uint64_t count = std::min(run->count, pages - page);
        if (count == 0)
            return Error(EINVAL,
                         fmt::format("the image's index is empty where {} should be", file.path));
        if (run->hole || run->kind == image::ExtentKind::zero) {
            page += count;
            continue;
        }
        count = std::min(count, most);
        if (Result<void> got =
                image.read_pages(file.object, page, {buffer.data(), count * page_size});
            !got)
            return got;
        const uint64_t size = std::min(count * page_size, file.size - page * page_size);
        for (uint64_t at = 0; at < size;) {
            const ssize_t n =
                pwrite(fd, &buffer[at], size - at, static_cast<off_t>(page * page_size + at));
            if (n <= 0)
                return Error::from_errno(fmt::format("writing the contents of {}", file.path),
                                         n < 0 ? errno : EIO);
            at += static_cast<uint64_t>(n);
        }
        page += count;
    }
    return {};
}

Result<bool> has_contents(image::Image &image, const image::File &file, int fd)
{
    std::vector<uint8_t> saved(contents_part);
    std::vector<uint8_t> found(saved.size());
    for (uint64_t at = 0; at < file.size;) {
        const uint64_t size = std::min<uint64_t>(saved.size(), file.size - at);
        const size_t whole = (size + page_size - 1) & ~(page_size - 1);
        if (Result<void> got = image.read_pages(file.object, at / page_size, {saved.data(), whole});
            !got)
            return got.error();
        for (uint64_t have = 0; have < size;) {
            const ssize_t n = pread(fd, &found[have], size - have, static_cast<off_t>(at + have));
            if (n <= 0)
                return false;
            have += static_cast<uint64_t>(n);
        }
        if (memcmp(saved.data(), found.data(), size) != 0)
            return false;
        at += size;
    }
    return true;
}

} // namespace cryo::resources
