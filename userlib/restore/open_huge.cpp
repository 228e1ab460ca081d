// SPDX-License-Identifier: Apache-2.0
// Shared memory and files that consist of huge pages which an administrator has set aside
// (hugetlb). Such a file is written through a mapping only.
#include "restore/open_parts.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <fmt/format.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/vfs.h>

namespace cryo::restore {

namespace {

class Mapped
{
  public:
    Mapped(int fd, uint64_t size, int flags)
        : size_(size), at_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0))
    {}
    Mapped(const Mapped &) = delete;
    Mapped &operator=(const Mapped &) = delete;
    ~Mapped()
    {
        if (good())
            munmap(at_, size_);
    }
    bool good() const { return at_ != MAP_FAILED; }
    uint8_t *at(uint64_t offset) const { return static_cast<uint8_t *>(at_) + offset; }

  private:
    uint64_t size_;
    void *at_;
};

// A mapping without reservation takes its pages when touched, if there are any then.
int reservation(const Planning &p, const image::File &file)
{
    const bool none = std::ranges::any_of(p.saved.regions(), [&](const image::Region &region) {
        return region.file == file.id && (region.flags & image::kRegionNoReserve) != 0;
    });
    return none ? MAP_NORESERVE : 0;
}

uint64_t page_size_of(int fd)
{
    struct statfs system;
    const bool huge = fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
    return huge ? static_cast<uint64_t>(system.f_bsize) : 0;
}

Error too_few(const image::File &file, uint64_t page_size, int why)
{
    return Error(why, fmt::format("{}: {} huge pages of {} KiB (hugetlb) are needed, of which {} "
                                  "are free here: {}; set more aside "
                                  "(/sys/kernel/mm/hugepages/hugepages-{}kB/nr_hugepages)",
                                  file.path, file.size / page_size, page_size / 1024,
                                  std::max<int64_t>(free_huge_pages(page_size), 0), strerror(why),
                                  page_size / 1024));
}

} // namespace

bool has_huge_pages(int fd)
{
    return page_size_of(fd) != 0;
}

// Pages are allocated before they are written to: a write that finds none
// kills the writer. Pages that were mapped once stay reserved for the
// file, so that no other process gets them before the program is back.
Result<void> fill_huge(Planning &p, const image::File &file, int fd)
{
    const uint64_t page_size = page_size_of(fd);
    if (ftruncate(fd, static_cast<off_t>(file.size)) != 0)
        return Error::from_errno(fmt::format("making {} as large as it was", file.path), errno);
    if (file.size == 0)
        return {};
    const Mapped memory(fd, file.size, reservation(p, file));
    if (!memory.good())
        return too_few(file, page_size, errno);
    const uint64_t pages = file.size / image::kPageSize;
    for (uint64_t page = 0; page < pages;) {
        Result<image::Run> run = p.image.find(file.object, page);
        if (!run)
            return run.error();
        const uint64_t count = std::min(run->count, pages - page);
        if (count == 0)
            return Error(EINVAL,
                         fmt::format("the image's index is empty where {} should be", file.path));
        if (!run->hole && run->kind != image::ExtentKind::zero) {
            const uint64_t begin = page * image::kPageSize / page_size * page_size;
            const uint64_t end = (page + count) * image::kPageSize;
            if (fallocate(fd, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin)) != 0)
                return too_few(file, page_size, errno);
            if (Result<void> got = p.image.read_pages(
                    file.object, page,
                    {memory.at(page * image::kPageSize), count * image::kPageSize});
                !got)
                return got;
        }
        page += count;
    }
    return {};
}

// If the program has no descriptor of it, ordinary pages will do where too few are free.
Result<Fd> huge_memory_file(Planning &p, const image::File &file, unsigned flags)
{
    const std::string name(file.link);
    const uint64_t size = file.huge_page_size;
    if (!std::has_single_bit(size) || size < image::kPageSize || file.size % size != 0)
        return Error(
            EINVAL, fmt::format("memory file {}: there are no huge pages of {} bytes", name, size));
    const unsigned huge = MFD_HUGETLB | static_cast<unsigned>(std::countr_zero(size))
                                            << MFD_HUGE_SHIFT;
    Fd made(memfd_create(name.c_str(), flags | huge));
    int why = errno;
    if (made && file.size != 0) {
        if (ftruncate(made.get(), static_cast<off_t>(file.size)) != 0)
            return Error::from_errno(fmt::format("making {} as large as it was", file.path), errno);
        if (!Mapped(made.get(), file.size, reservation(p, file)).good()) {
            why = errno;
            made.reset();
        }
    }
    if (made)
        return made;
    const bool seen = std::ranges::any_of(
        p.saved.open_files(), [&](const auto &one) { return one.second.file == file.id; });
    if (seen)
        return too_few(file, size, why);
    p.plan.notices.push_back(fmt::format(
        "{} MiB of shared memory consisted of huge pages of {} KiB (hugetlb), of which {} are free "
        "here: it consists of ordinary ones",
        file.size >> 20, size / 1024, std::max<int64_t>(free_huge_pages(size), 0)));
    made.reset(memfd_create(name.c_str(), flags));
    if (!made)
        return Error::from_errno(fmt::format("making memory file {}", name), errno);
    return made;
}

} // namespace cryo::restore
