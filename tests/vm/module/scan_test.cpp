// SPDX-License-Identifier: Apache-2.0
//
// SCAN is compared with what the test has just done to its own memory.
#include <fstream>
#include <map>
#include <random>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "device_test.hpp"
#include "memory.hpp"

namespace cryo::test {
namespace {

constexpr int anon = MAP_PRIVATE | MAP_ANONYMOUS;
constexpr int rw = PROT_READ | PROT_WRITE;
constexpr size_t huge_bytes = size_t{2} << 20;

class Scan : public DeviceTest
{};

#define EXPECT_CLASS(expected, pages, index) EXPECT_EQ(expected, (pages)[index].page_class)

TEST_F(Scan, AnonymousPagesByWhatWasDoneToThem)
{
    Mapping m(8, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    m.read(1);
    m.write(2);
    m.read(3);
    m.write(3);
    m.write(4);
    madvise(m.at(4), page, MADV_DONTNEED);

    auto pages = classes_of(device(), m, CRYO_PAGE_PRESENT);
    EXPECT_EQ((Page{CRYO_UNTOUCHED, 0}), pages[0]);
    EXPECT_EQ((Page{CRYO_ZERO, CRYO_PAGE_PRESENT}), pages[1]);
    EXPECT_EQ((Page{CRYO_ANON, CRYO_PAGE_PRESENT}), pages[2]);
    EXPECT_EQ((Page{CRYO_ANON, CRYO_PAGE_PRESENT}), pages[3]);
    EXPECT_EQ((Page{CRYO_UNTOUCHED, 0}), pages[4]);
}

TEST_F(Scan, ProtectionDoesNotHideContents)
{
    Mapping m(4, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    m.write(1);
    m.read(2);
    ASSERT_EQ(0, mprotect(m.at(0), 4 * page, PROT_NONE));

    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 0);
    EXPECT_CLASS(CRYO_ANON, pages, 1);
    EXPECT_CLASS(CRYO_ZERO, pages, 2);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 3);
}

TEST_F(Scan, APrivateFileMappingTellsModifiedPages)
{
    Fd file = file_of_pages(6);
    Mapping m(6, rw, MAP_PRIVATE, file.get());
    m.read(1);
    m.write(2);
    m.read(3);
    m.write(3);
    m.write(4);
    madvise(m.at(4), page, MADV_DONTNEED); // back to the file's page

    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_FILE, pages, 0);
    EXPECT_CLASS(CRYO_FILE, pages, 1);
    EXPECT_CLASS(CRYO_COPIED, pages, 2);
    EXPECT_CLASS(CRYO_COPIED, pages, 3);
    EXPECT_CLASS(CRYO_FILE, pages, 4);
    EXPECT_CLASS(CRYO_FILE, pages, 5);
}

TEST_F(Scan, SharedMappingsAreShared)
{
    Fd file = file_of_pages(2);
    Fd memory(memfd_create("cryo", MFD_CLOEXEC));
    ASSERT_EQ(0, ftruncate(memory.get(), static_cast<off_t>(2 * page)));
    Mapping of_file(2, rw, MAP_SHARED, file.get());
    Mapping of_nothing(2, rw, MAP_SHARED | MAP_ANONYMOUS);
    Mapping of_memory(2, rw, MAP_SHARED, memory.get());
    for (const Mapping *m : {&of_file, &of_nothing, &of_memory}) {
        m->write(1);
        for (Page p : classes_of(device(), *m))
            EXPECT_EQ(CRYO_SHARED, p.page_class);
    }
    Mapping private_memory(2, rw, MAP_PRIVATE, memory.get());
    private_memory.write(0);
    auto pages = classes_of(device(), private_memory);
    EXPECT_CLASS(CRYO_COPIED, pages, 0);
    EXPECT_CLASS(CRYO_FILE, pages, 1);
}

TEST_F(Scan, ReadOnlySharedMappingIsShared)
{
    Fd file = file_of_pages(1);
    Fd read_only(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY));
    ASSERT_TRUE(read_only);
    Mapping m(1, PROT_READ, MAP_SHARED, read_only.get());
    m.read(0);
    EXPECT_CLASS(CRYO_SHARED, classes_of(device(), m), 0);
}

TEST_F(Scan, PrivateDevZeroIsAnonymous)
{
    Fd zero(open("/dev/zero", O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(zero);
    Mapping m(2, rw, MAP_PRIVATE, zero.get());
    m.write(1);
    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 0);
    EXPECT_CLASS(CRYO_ANON, pages, 1);
}

TEST_F(Scan, AfterForkBothSidesSeeTheirOwn)
{
    Mapping m(3, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    m.write(0);
    m.write(1);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        m.write(1);
        m.write(2);
        auto pages = classes_of(device(), m);
        _exit(pages[0].page_class == CRYO_ANON && pages[1].page_class == CRYO_ANON &&
                      pages[2].page_class == CRYO_ANON
                  ? 0
                  : 1);
    }
    int status = -1;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status) << "the child saw something else";
    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_ANON, pages, 0);
    EXPECT_CLASS(CRYO_ANON, pages, 1);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 2);
}

TEST_F(Scan, HugePagesAndTheHugeZeroPage)
{
    const size_t small = huge_bytes / page;
    Mapping m(3 * small, rw, anon, -1, huge_bytes);
    ASSERT_TRUE(m.advise(MADV_HUGEPAGE));
    m.read(0);
    m.write(small);

    auto pages = classes_of(device(), m, CRYO_PAGE_PRESENT | CRYO_PAGE_HUGE);
    for (size_t i = 0; i < small; i++) {
        ASSERT_EQ((Page{CRYO_ZERO, CRYO_PAGE_PRESENT | CRYO_PAGE_HUGE}), pages[i]) << i;
        ASSERT_EQ((Page{CRYO_ANON, CRYO_PAGE_PRESENT | CRYO_PAGE_HUGE}), pages[small + i]) << i;
        ASSERT_EQ((Page{CRYO_UNTOUCHED, 0}), pages[2 * small + i]) << i;
    }

    // Split, with a hole: the rest keeps its contents. khugepaged must not fill the hole meanwhile.
    ASSERT_TRUE(m.advise(MADV_NOHUGEPAGE));
    ASSERT_EQ(0, madvise(m.at(small + 5), page, MADV_DONTNEED));
    pages = classes_of(device(), m, 0);
    EXPECT_CLASS(CRYO_ANON, pages, small + 4);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, small + 5);
    EXPECT_CLASS(CRYO_ANON, pages, small + 6);

    // Part of a huge page.
    auto runs = device().scan(m.start() + 3 * page, m.start() + 7 * page, CRYO_PAGE_HUGE);
    ASSERT_TRUE(runs) << runs.error().text();
    ASSERT_EQ(1U, runs->size());
    EXPECT_EQ(4U, runs->front().npages);
    EXPECT_EQ(CRYO_ZERO, runs->front().page_class);
}

TEST_F(Scan, GuardPages)
{
    constexpr int guard_install = 102, guard_remove = 103;
    Mapping m(4, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    m.write(0);
    m.write(1);
    utsname name = {};
    uname(&name);
    int major = 0, minor = 0;
    ASSERT_EQ(2, sscanf(name.release, "%d.%d", &major, &minor));
    int rc = madvise(m.at(1), 2 * page, guard_install);
    if (major * 100 + minor < 613) {
        EXPECT_EQ(-1, rc) << "this kernel has guard pages: test them";
        return;
    }
    ASSERT_EQ(0, rc) << strerror(errno);
    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_ANON, pages, 0);
    EXPECT_CLASS(CRYO_GUARD, pages, 1);
    EXPECT_CLASS(CRYO_GUARD, pages, 2);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 3);
    ASSERT_EQ(0, madvise(m.at(1), 2 * page, guard_remove));
    EXPECT_CLASS(CRYO_UNTOUCHED, classes_of(device(), m), 1);
}

TEST_F(Scan, SoftDirtyIsExact)
{
    if (!device().has(CRYO_FEATURE_SOFT_DIRTY)) {
        Mapping m(1, rw, anon);
        m.write(0);
        EXPECT_EQ(0, classes_of(device(), m, CRYO_PAGE_SOFT_DIRTY)[0].flags);
        return;
    }
    Mapping m(64, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < 64; i++)
        m.write(i);
    EXPECT_EQ(CRYO_PAGE_SOFT_DIRTY, classes_of(device(), m, CRYO_PAGE_SOFT_DIRTY)[0].flags)
        << "a new mapping is dirty";
    std::ofstream("/proc/self/clear_refs") << "4\n";
    for (size_t i = 0; i < 64; i += 7)
        m.write(i);
    auto pages = classes_of(device(), m, CRYO_PAGE_SOFT_DIRTY);
    for (size_t i = 0; i < 64; i++)
        EXPECT_EQ(i % 7 == 0 ? CRYO_PAGE_SOFT_DIRTY : 0U, pages[i].flags) << i;
}

TEST_F(Scan, GapsAndTheKernelsPages)
{
    Mapping m(4, rw, anon);
    ASSERT_EQ(0, munmap(m.at(1), page));
    auto pages = classes_of(device(), m);
    EXPECT_CLASS(CRYO_UNTOUCHED, pages, 0);
    EXPECT_EQ((Page{CRYO_UNMAPPED, 0}), pages[1]);

    std::map<std::string, int> seen;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        uint64_t start = 0, end = 0;
        if (sscanf(line.c_str(), "%lx-%lx", &start, &end) != 2 || line.find("[v") == line.npos ||
            line.find("[vsyscall]") != line.npos)
            continue;
        auto runs = device().scan(start, end, CRYO_PAGE_FLAGS & ~CRYO_PAGE_SOFT_DIRTY);
        ASSERT_TRUE(runs) << runs.error().text();
        ASSERT_EQ(1U, runs->size()) << line;
        EXPECT_EQ(CRYO_SPECIAL, runs->front().page_class) << line;
        seen[line.substr(line.find('['))]++;
    }
    EXPECT_EQ(1, seen["[vdso]"]);
    EXPECT_EQ(1, seen["[vvar]"]);
}

TEST_F(Scan, ASparseTerabyteIsQuick)
{
    constexpr uint64_t bytes = uint64_t{1} << 40;
    Mapping m(bytes / page, rw, anon | MAP_NORESERVE);
    ASSERT_TRUE(m.advise(MADV_NOHUGEPAGE));
    const size_t distance = m.pages() / 10;
    for (size_t i = 0; i < 10; i++)
        m.write(i * distance);

    uint64_t at = m.start();
    int calls = 0;
    size_t touched = 0;
    cryo_run runs[256];
    while (at < m.end()) {
        size_t count = 0;
        ASSERT_EQ(0, device().scan_raw(at, m.end(), 0, runs, count));
        for (size_t i = 0; i < count; i++)
            touched += runs[i].page_class == CRYO_ANON ? runs[i].npages : 0;
        ASSERT_LT(++calls, 10) << "empty gigabytes must cost nothing";
    }
    EXPECT_EQ(10U, touched);
}

TEST_F(Scan, AnyBufferGivesTheSameAnswer)
{
    Mapping m(700, rw, anon);
    m.advise(MADV_NOHUGEPAGE);
    for (size_t i = 0; i < m.pages(); i += 2)
        m.write(i);
    const auto expected = classes_of(device(), m);

    for (size_t room : {1, 2, 3, 169, 170, 171, 172, 340, 341, 699, 700, 701}) {
        std::vector<cryo_run> all, part(room);
        uint64_t at = m.start();
        while (at < m.end()) {
            uint64_t before = at;
            size_t count = 0;
            ASSERT_EQ(0, device().scan_raw(at, m.end(), CRYO_PAGE_FLAGS, part, count));
            ASSERT_GT(at, before) << "no progress with room for " << room;
            ASSERT_GE(count, 1U);
            ASSERT_LE(count, room);
            all.insert(all.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(count));
        }
        EXPECT_EQ(expected, expand(all, m.start(), m.end())) << "room for " << room;
    }
}

TEST_F(Scan, RandomPatterns)
{
    const unsigned seed = std::random_device()();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    Fd file = file_of_pages(1500);
    Mapping anonymous(1500, rw, anon), of_file(1500, rw, MAP_PRIVATE, file.get());
    anonymous.advise(MADV_NOHUGEPAGE);
    std::vector<uint16_t> a(1500, CRYO_UNTOUCHED), f(1500, CRYO_FILE);
    for (int i = 0; i < 3000; i++) {
        size_t at = random() % 1500;
        switch (random() % 6) {
        case 0:
            anonymous.read(at);
            if (a[at] == CRYO_UNTOUCHED)
                a[at] = CRYO_ZERO;
            break;
        case 1:
            anonymous.write(at);
            a[at] = CRYO_ANON;
            break;
        case 2:
            madvise(anonymous.at(at), page, MADV_DONTNEED);
            a[at] = CRYO_UNTOUCHED;
            break;
        case 3:
            of_file.read(at);
            break;
        case 4:
            of_file.write(at);
            f[at] = CRYO_COPIED;
            break;
        default:
            madvise(of_file.at(at), page, MADV_DONTNEED);
            f[at] = CRYO_FILE;
        }
    }
    auto seen_a = classes_of(device(), anonymous, 0), seen_f = classes_of(device(), of_file, 0);
    for (size_t i = 0; i < 1500; i++) {
        ASSERT_EQ(a[i], seen_a[i].page_class) << "anonymous page " << i;
        ASSERT_EQ(f[i], seen_f[i].page_class) << "file page " << i;
    }
}

} // namespace
} // namespace cryo::test
