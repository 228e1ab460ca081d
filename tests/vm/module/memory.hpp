// SPDX-License-Identifier: Apache-2.0
//
// Mapping is a range of memory whose pages a test puts into known states; classes_of returns how
// the module classifies them.
//
//     Mapping m(16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
//     m.write(3);
//     EXPECT_EQ(CRYO_ANON, classes_of(device, m)[3].page_class);
#pragma once

#include <cstdint>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

#include "device/device.hpp"

namespace cryo::test {

class Mapping
{
  public:
    Mapping(size_t pages, int protection, int flags, int fd = -1, size_t align = 0);
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping();

    char *at(size_t index) const;
    uint64_t start() const { return reinterpret_cast<uintptr_t>(base_); }
    uint64_t end() const;
    size_t pages() const { return pages_; }

    void write(size_t index) const;
    void read(size_t index) const;
    bool advise(int advice) const;

  private:
    char *whole_;
    size_t whole_length_;
    char *base_;
    size_t pages_;
};

struct Page {
    uint16_t page_class;
    uint16_t flags;
    bool operator==(const Page &) const = default;
};

std::ostream &operator<<(std::ostream &out, const Page &page);

// One entry for each page. Checks that the runs tile the range.
std::vector<Page> expand(const std::vector<cryo_run> &runs, uint64_t start, uint64_t end);
std::vector<Page> classes_of(const Device &device, const Mapping &mapping,
                             uint32_t want = CRYO_PAGE_FLAGS);

// A temporary file of `pages` pages, each filled with its own letter; already unlinked.
Fd file_of_pages(size_t pages);

} // namespace cryo::test
