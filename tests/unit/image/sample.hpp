// SPDX-License-Identifier: Apache-2.0
//
// Shared by the image tests: a scratch directory, a model of an image's contents in plain maps, a
// writer that makes an image of a model, and readers that turn an image back into a model.
//
//     Scratch dir;
//     Model m = Model::random(seed);
//     Committed c = write_image(dir / "image", m, {.packing = Packing::automatic});
//     EXPECT_EQ(read_by_index(dir / "image", Access::map), m);
#pragma once

#include <array>
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <random>

#include "image/reader.hpp"
#include "image/records.hpp"
#include "image/stream_reader.hpp"
#include "image/writer.hpp"

#include "../scratch.hpp"

namespace cryo::image {

using cryo::Scratch;

using PageBytes = std::array<uint8_t, kPageSize>;
using PageKey = std::pair<uint32_t, uint64_t>; // object, page

struct RawRecord {
    RecordType type{};
    uint16_t version = 1;
    uint16_t flags = 0;
    std::vector<uint8_t> payload = {};
    bool operator==(const RawRecord &) const = default;
};

// The contents of an image, in the simplest possible form.
struct Model {
    std::vector<RawRecord> records = {};
    std::map<PageKey, PageBytes> pages = {};  // with contents, including zeros
    std::map<PageKey, uint64_t> in_base = {}; // page in the base

    static Model random(uint64_t seed, size_t most_pages = 400, bool with_base = false);
    bool operator==(const Model &) const = default;
};

PageBytes random_page(std::mt19937_64 &random);

// Fails the test if anything goes wrong.
Committed write_image(const std::string &path, const Model &model,
                      const WriterOptions &options = {},
                      const FileOptions &file = {.existing = Existing::replace, .sync = false});
void feed_model(ImageWriter &writer, const Model &model, uint64_t seed = 1);

// Data and zero pages by find() and read_pages(); the rest of the model by the index.
Model read_by_index(const std::string &path, Access access);
Model read_as_stream(const std::string &path);
Model read_stream(int fd);
Model to_model(Image &image);
std::string name_of_access(Access access);
// Checks that every reader gives the model back, and that verify() finds nothing.
void expect_sound(const std::string &path, const Model &model);

// "" if every way of reading accepts the file, else the first error.
std::string error_of_open(const std::string &path, Access access);
std::string error_of_stream(const std::string &path);

std::vector<uint8_t> slurp(const std::string &path);
void spew(const std::string &path, Bytes bytes);

} // namespace cryo::image
