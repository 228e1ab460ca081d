// SPDX-License-Identifier: Apache-2.0
//
// make_redundancy_seeds DIRECTORY: parity of sets without bytes, one of each scheme, into
// DIRECTORY/seeds, as the initial corpus.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>

#include "redundancy/parity_file.hpp"

using namespace cryo;
using namespace cryo::redundancy;

namespace {

void check(const Result<void> &result)
{
    if (!result) {
        fprintf(stderr, "make_redundancy_seeds: %s\n", result.error().text().c_str());
        exit(1);
    }
}

void make(const std::filesystem::path &seeds, const char *text, unsigned members)
{
    const Result<Scheme> scheme = parse_scheme(text);
    check(scheme ? Result<void>() : Result<void>(scheme.error()));
    Description set{.id = "0123456789", .scheme = *scheme, .members = {}, .member = members - 1};
    for (unsigned i = 0; i < members; i++)
        set.members.push_back(
            {.node = fmt::format("n{}", i),
             .files = {{.name = fmt::format("opal_snapshot_{}.ckpt/cryo_context.4{}", i, i),
                        .bytes = 100'000 * i,
                        .checksum = "0123456789abcdef0123456789abcdef"}}});
    const Result<Directory> directory = Directory::open(seeds);
    check(directory ? Result<void>() : Result<void>(directory.error()));
    Result<ParityWriter> writer = ParityWriter::create(*directory, set, false);
    check(writer ? writer->commit() : Result<void>(writer.error()));
    check(directory->rename(parity_name, text));
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_redundancy_seeds DIRECTORY\n");
        return 255;
    }
    const std::filesystem::path seeds = std::filesystem::path(argv[1]) / "seeds";
    std::filesystem::create_directories(seeds);
    make(seeds, "partner", 2);
    make(seeds, "xor", 4);
    make(seeds, "rs:2", 5);
    return 0;
}
