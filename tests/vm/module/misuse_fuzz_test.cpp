// SPDX-License-Identifier: Apache-2.0
//
// Random structures for every command of /dev/cryo. CRYO_FUZZ: how many calls; CRYO_SEED: repeats a
// run.
#include <array>
#include <cstddef>
#include <cstdlib>
#include <random>
#include <sys/wait.h>
#include <unistd.h>

#include "misuse.hpp"

namespace cryo::test {
namespace {

class Fuzz : public DeviceTest
{};

TEST_F(Fuzz, RandomStructures)
{
    const char *rounds_text = getenv("CRYO_FUZZ"), *seed_text = getenv("CRYO_SEED");
    const long rounds = rounds_text ? atol(rounds_text) : 3000;
    const unsigned seed =
        seed_text ? static_cast<unsigned>(atol(seed_text)) : std::random_device()();
    SCOPED_TRACE("CRYO_SEED=" + std::to_string(seed));
    RecordProperty("seed", std::to_string(seed));
    std::mt19937_64 random(seed);

    Mapping playground(64, rw, anon), guard(2, rw, anon);
    mprotect(guard.at(1), page, PROT_NONE);
    // Only these may be written: no random address may hit this program's memory by accident.
    auto pointer = [&]() -> uint64_t {
        switch (random() % 8) {
        case 0:
            return 0;
        case 1:
            return kernel_address + random() % page;
        case 2:
            return non_canonical;
        case 3:
            return reinterpret_cast<uint64_t>(guard.at(1)) - random() % 64;
        case 4:
            return UINT64_MAX - random() % page;
        default:
            return playground.start() + random() % (32 * page);
        }
    };
    const auto all = commands();
    for (long i = 0; i < rounds; i++) {
        const Command &command = all[random() % all.size()];
        Argument argument(command);
        const size_t changes = random() % 4;
        for (size_t c = 0; c < changes; c++) {
            uint64_t value = 0;
            switch (random() % 5) {
            case 0:
                value = uint64_t{1} << random() % 64;
                break;
            case 1:
                value = random();
                break;
            case 2:
                value = random() % 16;
                break;
            case 3:
                value = pointer() & ~(page - 1);
                break;
            default:
                value = ~uint64_t{0};
            }
            argument.set(random() % (command.size / 8) * 8, &value, 8);
        }
        // Buffers stay where a stray write cannot hurt this program.
        if (command.buffer) {
            uint64_t buffer = pointer();
            uint32_t room = static_cast<uint32_t>(random() % 300);
            argument.set(command.buffer, &buffer, 8);
            argument.set(command.room, &room, 4);
        }
        if (command.descriptor) {
            const int fds[] = {scratch_file(), scratch_file(), -1, 9999, device().fd()};
            const int fd = fds[random() % std::size(fds)];
            argument.set(command.descriptor, &fd, sizeof(fd));
        }
        // A structure that happens to be valid may unmap this program's memory.
        const bool apart = command.number == CRYO_IOC_RESTORE;
        const pid_t child = apart ? fork() : 0;
        if (child == 0) {
            const bool good = call(command.number, argument.get()) != 0
                                  ? argument.unchanged()
                                  : argument.kept_inside(command.size);
            if (apart)
                _exit(good ? 0 : 1);
            ASSERT_TRUE(good) << "round " << i;
        } else {
            int status = 0;
            ASSERT_EQ(child, waitpid(child, &status, 0));
            ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "round " << i;
        }
    }
}

// Sets of descriptors for RESTORE, most of them nearly valid: regions and ranges that overlap, lie
// in the kept memory, exceed the address space, name wrong files. A malformed set must be refused
// before anything is unmapped.
class ForgedSet
{
  public:
    static constexpr size_t most = 24;

    explicit ForgedSet(uint64_t seed) : random_(seed)
    {
        uint64_t at = free_area;
        for (cryo_region &region : regions_) {
            at += random_() % 4 * page;
            region = {};
            region.start = at;
            at += (1 + random_() % 8) * page;
            region.end = at;
            region.fd = random_() % 3 ? -1 : scratch_file();
            region.prot = random_() % 8;
            region.flags = random_() % 4 ? 0 : random_() % 8;
        }
        for (cryo_range &range : ranges_) {
            const cryo_region &region = regions_[random_() % most];
            range = {region.start, region.end};
        }
        restore_.size = sizeof(restore_);
        restore_.keep_start = kept_from;
        restore_.keep_end = kept_to;
        restore_.regions = reinterpret_cast<uintptr_t>(regions_);
        restore_.ranges = reinterpret_cast<uintptr_t>(ranges_);
        restore_.nr_regions = random_() % (most + 1);
        restore_.nr_ranges = random_() % (most + 1);
        restore_.fd = scratch_file();
        for (size_t changes = random_() % 3; changes > 0; changes--)
            spoil();
    }

    cryo_restore *get() { return &restore_; }

    // The module must find this before it unmaps anything.
    bool malformed() const
    {
        uint64_t floor = 0;
        for (uint32_t i = 0; i < restore_.nr_regions; i++) {
            const cryo_region &r = regions_[i];
            if (!pages(r.start, r.end) || r.start < floor || kept(r.start, r.end) ||
                r.reserved != 0 || r.flags > 7 || r.prot > 7 || r.fd < -1 || r.offset % page != 0 ||
                r.offset > INT64_MAX || (r.fd == -1 && r.offset != 0))
                return true;
            floor = r.end;
        }
        for (uint32_t i = 0; i < restore_.nr_ranges; i++) {
            if (!pages(ranges_[i].start, ranges_[i].end) || kept(ranges_[i].start, ranges_[i].end))
                return true;
        }
        return false;
    }

  private:
    static bool pages(uint64_t start, uint64_t end)
    {
        return (start | end) % page == 0 && start < end && end <= kept_to;
    }
    static bool kept(uint64_t start, uint64_t end) { return start < kept_to && end > kept_from; }

    uint64_t odd_number()
    {
        switch (random_() % 6) {
        case 0:
            return kept_from + random_() % 64 * page;
        case 1:
            return kernel_address;
        case 2:
            return ~uint64_t{0} << random_() % 64;
        case 3:
            return random_();
        case 4:
            return kept_to - page + random_() % 3 * page;
        default:
            return random_() % 70000;
        }
    }

    void spoil()
    {
        // The members up to a structure's reserved one, as words.
        if (random_() % 2) {
            auto *words = reinterpret_cast<uint64_t *>(&regions_[random_() % most]);
            words[random_() % (sizeof(cryo_region) / 8)] = odd_number();
        } else {
            auto *words = reinterpret_cast<uint64_t *>(&ranges_[random_() % most]);
            words[random_() % 2] = odd_number();
        }
    }

    std::mt19937_64 random_;
    cryo_region regions_[most];
    cryo_range ranges_[most];
    cryo_restore restore_ = {};
};

// Neighbouring seeds have no set in common.
uint64_t seed_of(uint64_t seed, long number)
{
    std::seed_seq mixed{seed, seed >> 32, static_cast<uint64_t>(number)};
    std::array<uint32_t, 2> words{};
    mixed.generate(words.begin(), words.end());
    return uint64_t(words[0]) << 32 | words[1];
}

TEST_F(Fuzz, ForgedDescriptorSets)
{
    const char *rounds_text = getenv("CRYO_FUZZ"), *seed_text = getenv("CRYO_SEED");
    const long rounds = rounds_text ? atol(rounds_text) : 3000;
    const uint64_t seed =
        seed_text ? static_cast<uint64_t>(atol(seed_text)) : std::random_device()();
    SCOPED_TRACE("CRYO_SEED=" + std::to_string(seed));
    RecordProperty("seed", std::to_string(seed));

    // One process runs many sets: none of its own memory is in the way of a valid set.
    constexpr long batch = 100;
    for (long first = 0; first < rounds; first += batch) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            // Memory that a valid set unmaps: shows whether that has happened.
            char *const canary = reinterpret_cast<char *>(free_area - 16 * page);
            for (long i = first; i < first + batch; i++) {
                if (mmap(canary, page, rw, anon | MAP_FIXED, -1, 0) != canary)
                    _exit(2);
                ForgedSet set(seed_of(seed, i));
                const cryo_restore before = *set.get();
                const int rc = call(CRYO_IOC_RESTORE, set.get());
                unsigned char there = 0;
                const bool kept = mincore(canary, page, &there) == 0;
                if (rc < 0 && memcmp(&before, set.get(), sizeof(before)) != 0)
                    _exit(3);
                if (set.malformed() && (rc == 0 || !kept))
                    _exit(4);
                if (!set.malformed() && rc == 0 && kept)
                    _exit(5);
                if (rc == 0 && set.get()->mapped > before.nr_regions)
                    _exit(6);
            }
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(child, waitpid(child, &status, 0));
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
            << "sets from " << first << " on: status " << status;
    }
}

} // namespace
} // namespace cryo::test
