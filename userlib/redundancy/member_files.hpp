// SPDX-License-Identifier: Apache-2.0
//
// A member's image files as one stream of blocks, in the order of its description, the last block
// filled up with zeros.
//
//     MemberReader reader(directory, member, block, trust);
//     bool whole = reader.next(bytes);           // else some of it could not be read, and is zeros
//     reader.finish();                           // files behind the last block are empty
//     for (const Error &trouble : reader.troubles()) ...
//
//     MemberWriter writer(directory, member);
//     Result<void> taken = writer.next(bytes);
//     Result<void> done = writer.commit();       // else what it made is removed
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "image/checksum.hpp"
#include "redundancy/description.hpp"

#include <string>
#include <vector>

namespace cryo::redundancy {

// A rank's directory, which a name begins with, and what it has in there.
Result<Directory> enter_parent(const Directory &top, const std::string &name, std::string &file);

class MemberReader
{
  public:
    // The directory and the description must outlive it.
    MemberReader(const Directory &directory, const SetMember &member, const Trust &trust);

    bool next(image::MutableBytes block);
    void finish();

    // At most one of each file: what is not as described. Checksums are of whole files, so that
    // damage that leaves the size alone is only known at the end of its file.
    const std::vector<Error> &troubles() const { return troubles_; }

  private:
    void begin_file();
    void end_file();
    void read_piece(image::MutableBytes piece);
    void note(const Error &trouble);
    const SetFile &file() const { return member_.files[index_]; }
    std::string path() const { return directory_.path(file().name); }

    const Directory &directory_;
    const SetMember &member_;
    const Trust &trust_;
    size_t index_ = 0;
    bool begun_ = false;
    uint64_t at_ = 0; // in the file
    Fd fd_;
    bool readable_ = true; // this file is, as far as it was read
    bool noted_ = false;   // a trouble of this file
    image::Hasher hasher_;
    std::vector<Error> troubles_;
};

class MemberWriter
{
  public:
    // The directory and the description must outlive it.
    MemberWriter(const Directory &directory, const SetMember &member)
        : directory_(directory), member_(member)
    {}
    MemberWriter(const MemberWriter &) = delete;
    MemberWriter &operator=(const MemberWriter &) = delete;
    ~MemberWriter();

    Result<void> next(image::Bytes block);
    // EBADMSG: a file is not what was described. Files are complete, synced, and have their names.
    Result<void> commit();

  private:
    Result<void> begin_file();
    Result<void> end_file();
    const SetFile &file() const { return member_.files[index_]; }

    struct Made {
        std::string name;      // as described
        bool complete = false; // until then it is .NAME.tmp
    };
    Result<void> give_name(Made &made) const;
    void remove(const Made &made) const;

    const Directory &directory_;
    const SetMember &member_;
    size_t index_ = 0;
    bool begun_ = false;
    uint64_t at_ = 0;
    Fd fd_;
    image::Hasher hasher_;
    std::vector<Made> made_;
    bool committed_ = false;
};

} // namespace cryo::redundancy
