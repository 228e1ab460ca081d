// SPDX-License-Identifier: Apache-2.0
//
// Contents of files that have no name to be found by, or that were requested. They are copied while
// the program is stopped, in parts, and only where the file has data.
//
//     FileContents contents(files, objects, options);
//     if (Result<void> noted = contents.note(seen, saving); !noted) // each open file
//         return noted;
//     ... contents.save(writer, at_work) ...                        // before the program resumes
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/files/file_options.hpp"
#include "capture/files/file_table.hpp"
#include "capture/memory/objects.hpp"
#include "image/writer.hpp"
#include "resources/saving.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cryo::capture {

class FileContents
{
  public:
    FileContents(FileTable &files, Objects &objects, const FileOptions &options)
        : files_(files), objects_(objects), options_(options)
    {}

    // Chooses whether the contents of an open regular file or memfd are saved, and refuses those
    // that cannot be found again. It must have its records.
    Result<void> note(const resources::Seen &seen, resources::Saving &saving);
    // Chooses to save the contents of a file that is found by its name.
    void note_by_name(uint32_t file);

    bool empty() const { return contents_.empty(); }
    Result<void> save(image::ImageWriter &writer, const std::function<void()> &at_work);

  private:
    struct Content {
        uint32_t file;
        std::string path; // of a descriptor of the program, in /proc
        Fd kept = {};     // ours if no process has one, until the contents are saved
        Fd opened = {};   // to be read, if the mode forbids to open it
    };

    FileTable &files_;
    Objects &objects_;
    const FileOptions &options_;
    std::vector<Content> contents_;
};

} // namespace cryo::capture
