// SPDX-License-Identifier: Apache-2.0
//
// Arbitrary bytes as the beginning of a member's parity, three quarters of them with a checksum
// that fits. A description that is accepted must be accepted again when it is written, name no file
// outside of its member's directory, and its rows must be what the scheme says.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "image/checksum.hpp"
#include "image/little_endian.hpp"
#include "redundancy/parity_file.hpp"
#include "redundancy/rows.hpp"

using namespace cryo;
using namespace cryo::redundancy;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace {

constexpr size_t length_at = 8;
constexpr size_t digest_at = 16;
constexpr size_t head_bytes = 32;
constexpr int most_rows = 1000;

void sign(uint8_t *data, size_t size)
{
    if (size < head_bytes)
        return;
    std::copy_n("CRYOSET1", length_at, data);
    image::store_le(data + length_at, uint64_t(size - head_bytes));
    image::Hasher hasher;
    hasher.add({data, digest_at});
    hasher.add({data + head_bytes, size - head_bytes});
    std::ranges::copy(hasher.digest().bytes(), data + digest_at);
}

void walk(const Description &set)
{
    Rows rows(set.scheme, set.blocks());
    for (int i = 0; i < most_rows && rows.next(); i++) {
        if (rows.data().size() != rows.data_count() || rows.parity().size() != rows.parity_count())
            abort();
        for (const uint32_t member : rows.data()) {
            if (member >= set.members.size() || std::ranges::count(rows.parity(), member) != 0)
                abort();
        }
    }
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned int seed)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 4 != 0)
        sign(data, size);
    return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const Result<Description> set = read_parity_head({data, size}, "head");
    if (!set)
        return 0;
    const Result<Description> again = read_description(write_description(*set), "again");
    if (!again || !again->is_same_set(*set) || again->member != set->member)
        abort();
    for (const SetMember &member : set->members) {
        for (const SetFile &file : member.files) {
            const std::string path = "/" + file.name + "/";
            if (path.find("/../") != std::string::npos || path.find("//") != std::string::npos)
                abort();
        }
    }
    walk(*set);
    return 0;
}
