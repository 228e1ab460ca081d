// SPDX-License-Identifier: Apache-2.0
//
// Mutations that know where an image's numbers are. Three quarters of the results get correct
// checksums again; the rest test the checksums.
#include <algorithm>
#include <random>

#include "signer.hpp"

using namespace cryo::image;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace {

using Random = std::minstd_rand;

constexpr uint64_t kAwkward[] = {0,
                                 1,
                                 2,
                                 4,
                                 63,
                                 64,
                                 65,
                                 4095,
                                 4096,
                                 4097,
                                 0x7fffffff,
                                 0x80000000,
                                 0xffffffff,
                                 uint64_t(1) << 40,
                                 kMaxPage - 1,
                                 kMaxPage,
                                 uint64_t(1) << 63,
                                 ~uint64_t(0)};

// Changes a number of 1, 2, 4 or 8 bytes to an awkward one, or a little up or down.
void change_number(MutableBytes bytes, size_t at, Random &random)
{
    size_t width = size_t(1) << random() % 4;
    if (at + width > bytes.size())
        return;
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= uint64_t(bytes[at + i]) << 8 * i;
    value = random() % 2 ? kAwkward[random() % std::size(kAwkward)] : value + random() % 9 - 4;
    for (size_t i = 0; i < width; i++)
        bytes[at + i] = uint8_t(value >> 8 * i);
}

// Numbers are aligned to four bytes in prefixes and tables, and anywhere in typed records.
size_t place_in_record(const Signer &image, size_t record, size_t next, Random &random)
{
    size_t length = std::min<size_t>(next - record, 24 + 512);
    size_t place = record + random() % length;
    return random() % 4 ? place / 4 * 4 : std::min(place, image.size() - 1);
}

void mutate_structure(MutableBytes bytes, Random &random)
{
    Signer image(bytes);
    auto records = image.records();
    records.push_back(bytes.size());
    for (unsigned n = 1 + random() % 3; n; n--) {
        if (random() % 8 == 0 || records.size() < 2) {
            change_number(bytes, random() % 160, random); // the header
            continue;
        }
        size_t i = random() % (records.size() - 1);
        change_number(bytes, place_in_record(image, records[i], records[i + 1], random), random);
    }
}

// Duplicates or removes a record. Counts and positions are then wrong, except for streams.
size_t move_records(uint8_t *data, size_t size, size_t max_size, Random &random)
{
    auto records = Signer({data, size}).records();
    if (records.size() < 3)
        return size;
    size_t i = random() % (records.size() - 2);
    size_t length = records[i + 1] - records[i];
    if (random() % 2) {
        std::copy(data + records[i + 1], data + size, data + records[i]);
        return size - length;
    }
    if (length > max_size - size)
        return size;
    std::copy_backward(data + records[i], data + size, data + size + length);
    return size + length;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned seed)
{
    Random random(seed);
    switch (random() % 8) {
    case 0:
        size = LLVMFuzzerMutate(data, size, max_size);
        break;
    case 1:
        size = move_records(data, size, max_size, random);
        break;
    default:
        mutate_structure({data, size}, random);
    }
    if (random() % 4)
        Signer({data, size}).sign();
    return size;
}
