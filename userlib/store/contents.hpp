// SPDX-License-Identifier: Apache-2.0
//
// What is put into a store: files with names below a common one.
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::store {

enum class Kind {
    image,     // one file, and those that it is based on
    directory, // an image that is a directory
    snapshot,  // of an MPI job
};
std::string_view name_of(Kind kind);

struct Content {
    std::string name = {};                 // "3/opal_snapshot_0.ckpt/snapshot_meta.data"
    std::function<Result<Fd>()> open = {}; // for reading; the file does not change any more
};

struct Contents {
    Kind kind{};
    std::string name = {}; // of the whole
    std::string root = {}; // which file is the image; "": the directory of all
    std::vector<Content> files = {};
};

// A file without a name, with this text.
Result<Fd> file_of_text(const std::string &text);

// Whether a name leads to a file below a directory, and nowhere else.
bool is_safe_name(std::string_view name);

} // namespace cryo::store
