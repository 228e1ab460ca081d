// SPDX-License-Identifier: Apache-2.0
//
// SCAN is compared with other kernel sources (/proc/self/pagemap, and for root /proc/kpageflags),
// over the whole address space, with swap and hugetlb pages, and while other threads change the
// memory.
#include <atomic>
#include <csignal>
#include <fstream>
#include <map>
#include <sys/swap.h>
#include <thread>

#include "device_test.hpp"
#include "memory.hpp"

namespace cryo::test {
namespace {

constexpr int anon = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr int rw = PROT_READ | PROT_WRITE;
constexpr size_t huge_bytes = size_t{2} << 20;

class ScanKernel : public DeviceTest
{};

bool is_root()
{
    return geteuid() == 0;
}

struct Area {
    uint64_t start, end;
    bool shared;
    std::string name;
};

std::vector<Area> areas()
{
    std::vector<Area> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        Area area = {};
        char permissions[5] = {};
        int name_at = 0;
        if (sscanf(line.c_str(), "%lx-%lx %4s %*s %*s %*s %n", &area.start, &area.end, permissions,
                   &name_at) < 3)
            ADD_FAILURE() << "unexpected line: " << line;
        area.shared = permissions[3] == 's';
        area.name = line.substr(static_cast<size_t>(name_at));
        if (area.name != "[vsyscall]") // above what a process may map
            found.push_back(area);
    }
    return found;
}

// A page's entries in /proc/self/pagemap and /proc/kpageflags.
struct Truth {
    bool present, swapped, soft_dirty;
    bool anonymous, zero; // only for root
};

class Oracle
{
  public:
    Truth operator()(uint64_t address) const
    {
        uint64_t entry = 0;
        EXPECT_EQ(8, pread(pagemap_.get(), &entry, 8, static_cast<off_t>(address / page * 8)));
        Truth truth = {(entry >> 63 & 1) != 0, (entry >> 62 & 1) != 0, (entry >> 55 & 1) != 0,
                       false, false};
        uint64_t frame = entry & ((uint64_t{1} << 55) - 1), flags = 0;
        if (is_root() && truth.present &&
            pread(kpageflags_.get(), &flags, 8, static_cast<off_t>(frame * 8)) == 8) {
            truth.anonymous = (flags >> 12 & 1) != 0;
            truth.zero = (flags >> 24 & 1) != 0;
        }
        return truth;
    }

  private:
    Fd pagemap_{open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)};
    Fd kpageflags_{open("/proc/kpageflags", O_RDONLY | O_CLOEXEC)};
};

// How a page's class contradicts the truth, or "".
std::string contradiction(const Page &p, const Truth &truth, const Area &area)
{
    if (p.page_class == CRYO_SPECIAL)
        return area.name.rfind("[v", 0) == 0 ? "" : "not special";
    if ((p.page_class == CRYO_SHARED) != area.shared)
        return "shared or not";
    if (truth.present != ((p.flags & CRYO_PAGE_PRESENT) != 0))
        return "present or not";
    if (truth.swapped != ((p.flags & CRYO_PAGE_SWAPPED) != 0))
        return "in swap or not";
    if (truth.soft_dirty != ((p.flags & CRYO_PAGE_SOFT_DIRTY) != 0))
        return "soft-dirty or not";
    if (area.shared || !truth.present || !is_root())
        return "";
    if (truth.zero != (p.page_class == CRYO_ZERO))
        return "the zero page or not";
    if (truth.zero)
        return "";
    if (truth.anonymous != (p.page_class == CRYO_ANON || p.page_class == CRYO_COPIED))
        return "the program's own or not";
    return "";
}

TEST_F(ScanKernel, TheWholeAddressSpaceAgreesWithProc)
{
    // Some memory of every kind.
    Fd file = file_of_pages(8);
    Mapping of_file(8, rw, MAP_PRIVATE, file.get()), shared(8, rw, MAP_SHARED | MAP_ANONYMOUS);
    Mapping small(64, rw, anon), huge(1024, rw, anon, -1, huge_bytes);
    huge.advise(MADV_HUGEPAGE);
    for (size_t i = 0; i < 8; i += 3) {
        of_file.write(i);
        shared.write(i);
        small.write(i * 7);
        small.read(i * 7 + 1);
    }
    huge.write(0);
    huge.read(700);

    Oracle oracle;
    const auto before = areas();
    for (const Area &area : before) {
        if (area.end - area.start > (uint64_t{1} << 30))
            continue; // shadow memory of sanitizers
        auto runs = device().scan(area.start, area.end, CRYO_PAGE_FLAGS);
        ASSERT_TRUE(runs) << runs.error().text();
        auto pages = expand(*runs, area.start, area.end);
        for (size_t i = 0; i < pages.size(); i++) {
            uint64_t address = area.start + i * page;
            Truth truth = oracle(address);
            std::string wrong = contradiction(pages[i], truth, area);
            if (wrong.empty())
                continue;
            // This program's heap and stack keep changing: a contradiction must be found twice.
            auto again = device().scan(address, address + page, CRYO_PAGE_FLAGS);
            ASSERT_TRUE(again);
            Page second = expand(*again, address, address + page)[0];
            ASSERT_EQ("", contradiction(second, oracle(address), area))
                << area.name << " page " << i << ": " << second;
        }
    }
}

TEST_F(ScanKernel, TheWholeAddressSpaceIsTiled)
{
    const uint64_t top = 0x7ffffffff000;
    auto runs = device().scan(0, top, 0);
    ASSERT_TRUE(runs) << runs.error().text();
    uint64_t at = 0;
    std::map<uint64_t, uint64_t> mapped; // merged areas without gaps, by start
    for (const cryo_run &run : *runs) {
        ASSERT_EQ(at, run.start);
        at += run.npages * page;
        if (run.page_class == CRYO_UNMAPPED)
            continue;
        if (!mapped.empty() && mapped.rbegin()->second == run.start)
            mapped.rbegin()->second = at;
        else
            mapped[run.start] = at;
    }
    EXPECT_EQ(top, at);
    for (const Area &area : areas()) {
        auto holder = mapped.upper_bound(area.start);
        ASSERT_NE(holder, mapped.begin()) << area.name;
        --holder;
        if (area.name == "[heap]" || area.name == "[stack]")
            continue; // may have grown since
        EXPECT_LE(area.end, holder->second) << area.name;
    }
}

class Swap
{
  public:
    Swap()
    {
        on_ = system("/sbin/modprobe zram num_devices=1 && echo 64M >/sys/block/zram0/disksize && "
                     "/sbin/mkswap /dev/zram0 >/dev/null") == 0 &&
              swapon("/dev/zram0", 0) == 0;
    }
    Swap(const Swap &) = delete;
    Swap &operator=(const Swap &) = delete;
    ~Swap()
    {
        if (on_)
            swapoff("/dev/zram0");
    }
    bool on() const { return on_; }

  private:
    bool on_;
};

TEST_F(ScanKernel, RootPagesInSwapAreTheProgramsOwn)
{
    Swap swap;
    ASSERT_TRUE(swap.on()) << strerror(errno);
    constexpr int pageout = 21;
    Fd file = file_of_pages(64);
    Mapping m(64, rw, anon), copied(64, rw, MAP_PRIVATE, file.get());
    m.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < 64; i++) {
        m.write(i);
        copied.write(i);
    }
    ASSERT_TRUE(m.advise(pageout));
    ASSERT_TRUE(copied.advise(pageout));
    auto pages = classes_of(device(), m), copies = classes_of(device(), copied);
    int swapped = 0;
    for (size_t i = 0; i < 64; i++) {
        EXPECT_EQ(CRYO_ANON, pages[i].page_class) << i;
        EXPECT_EQ(CRYO_COPIED, copies[i].page_class) << i;
        swapped += (pages[i].flags & CRYO_PAGE_SWAPPED) != 0;
        swapped += (copies[i].flags & CRYO_PAGE_SWAPPED) != 0;
        EXPECT_NE((pages[i].flags & CRYO_PAGE_SWAPPED) != 0,
                  (pages[i].flags & CRYO_PAGE_PRESENT) != 0);
    }
    EXPECT_GT(swapped, 0) << "nothing was swapped out, so nothing was tested";
}

TEST_F(ScanKernel, RootHugetlbPages)
{
    std::ofstream("/proc/sys/vm/nr_hugepages") << "4\n";
    const size_t small = huge_bytes / page;
    void *memory = mmap(nullptr, 2 * huge_bytes, rw, anon | MAP_HUGETLB, -1, 0);
    ASSERT_NE(MAP_FAILED, memory) << strerror(errno);
    auto *base = static_cast<volatile char *>(memory);
    base[0] = 'h';
    auto start = reinterpret_cast<uintptr_t>(memory);
    auto runs = device().scan(start, start + 2 * huge_bytes, CRYO_PAGE_HUGE | CRYO_PAGE_PRESENT);
    ASSERT_TRUE(runs) << runs.error().text();
    auto pages = expand(*runs, start, start + 2 * huge_bytes);
    for (size_t i = 0; i < small; i++) {
        ASSERT_EQ((Page{CRYO_ANON, CRYO_PAGE_PRESENT | CRYO_PAGE_HUGE}), pages[i]) << i;
        ASSERT_EQ(CRYO_UNTOUCHED, pages[small + i].page_class) << i;
    }
    munmap(memory, 2 * huge_bytes);

    memory = mmap(nullptr, huge_bytes, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    ASSERT_NE(MAP_FAILED, memory) << strerror(errno);
    *static_cast<volatile char *>(memory) = 'h';
    start = reinterpret_cast<uintptr_t>(memory);
    runs = device().scan(start, start + huge_bytes, 0);
    ASSERT_TRUE(runs) << runs.error().text();
    ASSERT_EQ(1U, runs->size());
    EXPECT_EQ(CRYO_SHARED, runs->front().page_class);
    munmap(memory, huge_bytes);
    std::ofstream("/proc/sys/vm/nr_hugepages") << "0\n";
}

TEST_F(ScanKernel, SignalsCutAScanShortButNotWrong)
{
    struct sigaction act = {}, old = {};
    act.sa_handler = [](int) {};
    ASSERT_EQ(0, sigaction(SIGALRM, &act, &old));
    itimerval every = {{0, 200}, {0, 200}}, never = {};

    Mapping m(40000, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < m.pages(); i += 2)
        m.write(i);
    const auto expected = classes_of(device(), m, 0);
    setitimer(ITIMER_REAL, &every, nullptr);
    for (int round = 0; round < 20; round++)
        ASSERT_EQ(expected, classes_of(device(), m, 0));
    setitimer(ITIMER_REAL, &never, nullptr);
    sigaction(SIGALRM, &old, nullptr);
}

// Other threads map, unmap, split, collapse and discard during the scan. No answer is right for
// what they touch; the untouched page must be reported correctly, and the kernel must log nothing.
TEST_F(ScanKernel, WhileOtherThreadsChangeTheMemory)
{
    const size_t small = huge_bytes / page;
    Mapping m(4 * small, rw, anon, -1, huge_bytes);
    m.advise(MADV_HUGEPAGE);
    const size_t kept = 4 * small - 1;
    m.write(kept);

    std::atomic<bool> stop = false;
    auto change = [&](unsigned step) {
        constexpr int collapse = 25;
        for (unsigned i = step; !stop; i += step) {
            size_t at = i % (3 * small);
            m.write(at);
            madvise(m.at(i * 13 % (3 * small)), page, MADV_DONTNEED);
            if (i % 50 == 0)
                madvise(m.at(i / 50 % 3 * small), huge_bytes, collapse);
            if (i % 70 == 0)
                mprotect(m.at(at), page, i % 140 ? PROT_READ : rw);
            if (i % 70 == 35)
                mprotect(m.at(0), 3 * huge_bytes, rw);
            void *other = mmap(nullptr, huge_bytes, rw, anon | MAP_POPULATE, -1, 0);
            if (other != MAP_FAILED)
                munmap(other, huge_bytes);
        }
    };
    struct sigaction ignore_fault = {}, old = {};
    ignore_fault.sa_flags = SA_SIGINFO;
    // A write may hit its page while it is read-only: make the page writable and continue.
    ignore_fault.sa_sigaction = [](int, siginfo_t *info, void *) {
        auto address = reinterpret_cast<uintptr_t>(info->si_addr) & ~(page - 1);
        if (mprotect(reinterpret_cast<void *>(address), page, rw) != 0)
            _exit(99);
    };
    ASSERT_EQ(0, sigaction(SIGSEGV, &ignore_fault, &old));
    std::thread one(change, 1), two(change, 3);
    for (int i = 0; i < 300; i++) {
        auto runs = device().scan(m.start(), m.end(), CRYO_PAGE_FLAGS);
        ASSERT_TRUE(runs) << runs.error().text();
        auto pages = expand(*runs, m.start(), m.end());
        ASSERT_EQ(CRYO_ANON, pages[kept].page_class);
        ASSERT_TRUE(device().scan(0, 0x7ffffffff000, 0));
    }
    stop = true;
    one.join();
    two.join();
    sigaction(SIGSEGV, &old, nullptr);
}

} // namespace
} // namespace cryo::test
