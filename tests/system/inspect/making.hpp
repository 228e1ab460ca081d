// SPDX-License-Identifier: Apache-2.0
//
// What programs that make images for tests have in common: an error ends them.
#pragma once

#include <cstdlib>
#include <fmt/format.h>

#include "image/snapshot.hpp"

namespace cryo::image {

template <class T>
T check(Result<T> result)
{
    if (!result) {
        fmt::print(stderr, "{}\n", result.error().text());
        exit(1);
    }
    return std::move(*result);
}

inline void check(const Result<void> &result)
{
    if (!result) {
        fmt::print(stderr, "{}\n", result.error().text());
        exit(1);
    }
}

// Pages whose contents identify them.
inline std::vector<uint8_t> pages(uint8_t seed, size_t count)
{
    std::vector<uint8_t> out(count * kPageSize);
    for (size_t i = 0; i < out.size(); i++)
        out[i] = uint8_t(seed + i / kPageSize + i % 251);
    return out;
}

inline std::unique_ptr<ImageWriter> writer(const std::string &path, const WriterOptions &options)
{
    auto sink = check(FileSink::create(path, {.direct = false, .sync = false}));
    return check(ImageWriter::create(std::move(sink), options));
}

} // namespace cryo::image
