// SPDX-License-Identifier: Apache-2.0
// What several images of a tree know of its files, together.
#include "restore/saved.hpp"

#include <gtest/gtest.h>

namespace cryo::restore {

namespace {

image::File file_with(std::string_view build_id, std::string_view hash)
{
    image::File file;
    file.id = 1;
    file.path = "/lib/one.so";
    file.build_id = image::as_bytes(build_id);
    file.content_hash = image::as_bytes(hash);
    return file;
}

// The first process has it open, and another one has it mapped.
TEST(LearnFiles, AFileIsIdentifiedByALaterImage)
{
    for (const image::File &later : {file_with("build", ""), file_with("", "hash")}) {
        std::map<uint32_t, image::File> known = {{1, file_with("", "")}};
        learn_files(known, {{1, later}});
        EXPECT_EQ(image::as_text(known.at(1).build_id), image::as_text(later.build_id));
        EXPECT_EQ(image::as_text(known.at(1).content_hash), image::as_text(later.content_hash));
        learn_files(known, {{1, file_with("", "")}}); // one that has it open only
        EXPECT_EQ(known.at(1).build_id.size() + known.at(1).content_hash.size(),
                  later.build_id.size() + later.content_hash.size());
    }
}

TEST(LearnFiles, AFileOfAnotherImageIsAdded)
{
    std::map<uint32_t, image::File> known;
    learn_files(known, {{1, file_with("build", "")}});
    EXPECT_EQ(known.size(), 1U);
}

} // namespace

} // namespace cryo::restore
