// SPDX-License-Identifier: Apache-2.0
//
// The descriptor tables of stopped processes at three levels: descriptors, open files, files, and
// the files' contents. What cannot be saved becomes a problem, by name.
//
//     Files files(strings, objects, options);
//     files.read_descriptors(holders, zombies); // while all of them are stopped
//     files.save_contents(writer);              // likewise: nothing else freezes them
//     files.write_records(writer, 0, used);     // of the first process
//
// The processes of a tree have one table of files and open files, since they may share them. The
// image of the first process has all of it and all contents; the other images have only what they
// refer to. What open files of each kind hold is saved by resources/.
//
// Each part of it is a class: DescriptorLook lists the descriptors and groups them by open file,
// FileTable has the records of files and open files, SavingContext is what resources/ sees, and
// FileContents saves contents.
#pragma once

#include "base/result.hpp"
#include "capture/files/descriptor_look.hpp"
#include "capture/files/file_contents.hpp"
#include "capture/files/file_options.hpp"
#include "capture/files/file_table.hpp"
#include "capture/files/saving_context.hpp"
#include "capture/files/strings.hpp"
#include "capture/memory/objects.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"
#include "resources/socket/connection_hold.hpp"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class Files
{
  public:
    Files(Strings &strings, Objects &objects, const FileOptions &options)
        : strings_(strings), objects_(objects), options_(options), table_(strings, options),
          contents_(table_, objects, options)
    {}
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;

    // `zombies`: the members that have ended.
    Result<void> read_descriptors(std::vector<Holder> holders, std::set<pid_t> zombies);

    // As in FileTable.
    uint32_t mapped(const std::string &path, uint64_t device, uint64_t inode)
    {
        return table_.mapped(path, device, inode);
    }
    uint32_t removed_directory(const std::string &link, const struct stat &status)
    {
        return table_.removed_directory(link, status);
    }
    std::vector<image::File> &files() { return table_.files(); }

    // Marks the file's contents to be saved; the file is found by its name.
    void save_by_name(uint32_t file) { contents_.note_by_name(file); }
    // Saves the contents that fork does not freeze: only while the program is stopped.
    Result<void> save_contents(image::ImageWriter &writer, const std::function<void()> &at_work)
    {
        return contents_.save(writer, at_work);
    }
    bool has_contents() const { return !contents_.empty(); }
    // Saves what was copied when it was found: at any time.
    Result<void> save_copied(image::ImageWriter &writer);
    // For the image of the process `holder`; `mapped`: FILEs that it refers to in addition.
    Result<void> write_records(image::ImageWriter &writer, size_t holder,
                               const std::set<uint32_t> &mapped) const;
    // The connections that are to wait for a restart.
    resources::ConnectionHold &hold() { return hold_; }
    // Notices about this image for the user.
    const std::vector<std::string> &notices() const { return findings_.notices; }

  private:
    Result<void> save_open_files(const DescriptorLook &look, resources::Saving &saving);

    Strings &strings_;
    Objects &objects_;
    const FileOptions &options_;
    FileTable table_;
    FileContents contents_;
    Findings findings_;
    resources::ConnectionHold hold_;
    std::vector<std::vector<image::Descriptor>> descriptors_; // for each holder
};

} // namespace cryo::capture
