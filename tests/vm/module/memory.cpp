// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <cstdlib>
#include <string>

#include "device_test.hpp"

namespace cryo::test {

Mapping::Mapping(size_t pages, int protection, int flags, int fd, size_t align)
    : whole_length_(pages * page + align), pages_(pages)
{
    void *memory = mmap(nullptr, whole_length_, protection, flags, fd, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        abort();
    }
    whole_ = static_cast<char *>(memory);
    base_ = whole_;
    if (align) {
        uintptr_t address = reinterpret_cast<uintptr_t>(whole_);
        base_ += (address + align - 1) / align * align - address;
    }
}

Mapping::~Mapping()
{
    munmap(whole_, whole_length_);
}

char *Mapping::at(size_t index) const
{
    return base_ + index * page;
}

uint64_t Mapping::end() const
{
    return start() + pages_ * page;
}

void Mapping::write(size_t index) const
{
    *const_cast<volatile char *>(at(index)) = 'w';
}

void Mapping::read(size_t index) const
{
    [[maybe_unused]] volatile char seen = *const_cast<const volatile char *>(at(index));
}

bool Mapping::advise(int advice) const
{
    return madvise(base_, pages_ * page, advice) == 0;
}

std::ostream &operator<<(std::ostream &out, const Page &p)
{
    return out << "class " << p.page_class << " flags " << p.flags;
}

std::vector<Page> expand(const std::vector<cryo_run> &runs, uint64_t start, uint64_t end)
{
    std::vector<Page> pages;
    for (const cryo_run &run : runs) {
        EXPECT_EQ(start, run.start) << "the runs leave a gap or overlap";
        EXPECT_GT(run.npages, 0U);
        EXPECT_EQ(0U, run.reserved);
        pages.insert(pages.end(), run.npages, Page{run.page_class, run.flags});
        start = run.start + run.npages * page;
    }
    EXPECT_EQ(end, start) << "the runs do not end where the range does";
    return pages;
}

std::vector<Page> classes_of(const Device &device, const Mapping &mapping, uint32_t want)
{
    auto runs = device.scan(mapping.start(), mapping.end(), want);
    if (!runs) {
        ADD_FAILURE() << runs.error().text();
        return std::vector<Page>(mapping.pages());
    }
    return expand(*runs, mapping.start(), mapping.end());
}

Fd file_of_pages(size_t pages)
{
    std::string name = "/tmp/cryo-pages-XXXXXX";
    Fd fd(mkstemp(name.data()));
    unlink(name.c_str());
    for (size_t i = 0; i < pages; i++) {
        std::string contents(page, static_cast<char>('a' + i % 26));
        if (pwrite(fd.get(), contents.data(), page, static_cast<off_t>(i * page)) !=
            static_cast<ssize_t>(page)) {
            perror("pwrite");
            abort();
        }
    }
    return fd;
}

} // namespace cryo::test
