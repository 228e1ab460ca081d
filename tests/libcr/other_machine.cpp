// SPDX-License-Identifier: Apache-2.0
//
// Makes an image claim that it was taken on another architecture, with matching checksums:
//
//     other_machine IMAGE
#include "image/header.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

using namespace cryo::image;

int main(int argc, char **argv)
{
    constexpr uint16_t aarch64 = 183;
    if (argc != 2)
        return 2;
    const std::string name = argv[1];
    std::ifstream in(name, std::ios::binary);
    std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(in), {}};
    if (bytes.size() < kHeaderSize + kFooterSize)
        return 1;
    const Bytes all(bytes);
    cryo::Result<Header> header = Header::decode(all.first(kHeaderSize));
    cryo::Result<Footer> footer = Footer::decode(all.last(kFooterSize));
    if (!header || !footer)
        return 1;
    header->machine = aarch64;
    std::ranges::copy(header->encode(), bytes.begin());
    Hasher covered;
    covered.add(all.first(kHeaderSize));
    for (size_t at = kHeaderSize; at < bytes.size() - kFooterSize;) {
        const RecordPrefix prefix = RecordPrefix::decode(all.subspan(at).first<kPrefixSize>());
        const Bytes record = all.subspan(at, kPrefixSize + prefix.length);
        if (prefix.type != RecordType::segment)
            covered.add(record);
        at += record.size();
    }
    std::ranges::copy(footer->seal(covered), bytes.end() - kFooterSize);
    const std::string changed = name + ".changed";
    std::ofstream out(changed, std::ios::binary);
    out.write(reinterpret_cast<const char *>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out)
        return 1;
    std::filesystem::rename(changed, name); // writing to the image itself may be refused
    return 0;
}
