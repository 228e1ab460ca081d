// SPDX-License-Identifier: Apache-2.0
//
// Several images that belong together: an archive (one file or stream), or a directory.
//
//     ArchiveWriter archive(std::move(sink));
//     for (each process) {
//         auto writer = archive.begin_member({.packing = ...});
//         ... (*writer)->add(...) ...
//         archive.end_member(**writer, {.pid = 412, .comm = "sh"});
//     }
//     archive.commit({.scope = Scope::tree, .root_pid = 412});
//
//     auto snapshot = Snapshot::open("context.412");     // archive, directory, or a plain image
//     for (const SnapshotMember &m : (*snapshot)->members())
//         auto image = (*snapshot)->open_member(m);
#pragma once

#include <map>
#include <memory>

#include "base/directory.hpp"
#include "image/reader.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

namespace cryo::image {

inline constexpr const char *kTreeFile = "tree.cryo"; // of a directory
inline constexpr const char *kNewMember = "member";   // before its pid is known
inline constexpr size_t kMaxMembers = 65536;

class TreeWriter
{
  public:
    virtual ~TreeWriter() = default;

    // One member at a time: the next one begins when this one has ended.
    virtual Result<std::unique_ptr<ImageWriter>> begin_member(WriterOptions options) = 0;
    // Completes the member's image. Place, length, id and checksum in `about` are filled in.
    virtual Result<Committed> end_member(ImageWriter &writer, Member about) = 0;
    // A process that is part of the tree but has no image: a zombie, or one that was left out.
    virtual void add_without_image(Member about) = 0;

    // Writes the tree image and commits all. The number of members is filled in. The size is that
    // of all images.
    virtual Result<Committed> commit(Tree tree) = 0;
};

struct SnapshotMember;

class ArchiveWriter : public TreeWriter
{
  public:
    explicit ArchiveWriter(std::unique_ptr<Sink> sink);
    ~ArchiveWriter() override;

    Result<std::unique_ptr<ImageWriter>> begin_member(WriterOptions options) override;
    Result<Committed> end_member(ImageWriter &writer, Member about) override;
    void add_without_image(Member about) override;
    // Copies a member unchanged from another archive, which is open at `from`.
    Result<void> copy_member(int from, const SnapshotMember &member);
    Result<Committed> commit(Tree tree) override;

  private:
    class MemberSink;

    std::unique_ptr<Sink> sink_;
    uint64_t offset_ = 0;
    std::vector<std::vector<uint8_t>> members_; // encoded
};

// The tree image of a directory, whose images are files of their own. `sink` is for DIR/tree.cryo.
Result<Committed> write_tree(std::unique_ptr<Sink> sink, Tree tree,
                             std::span<const Member> members);

// A directory that appears under its name when everything in it is complete: context.PID for each
// process, and tree.cryo. What it replaces must be such a directory, too.
Result<std::unique_ptr<TreeWriter>> create_directory(const std::string &path,
                                                     const FileOptions &options);

struct SnapshotMember {
    std::string name = {}; // file name; in an archive or of a plain image empty
    ByteRange place;
    Digest id;
    Digest checksum;
    MemberState state{};
    uint32_t pid = 0;
    uint32_t ppid = 0;
    uint32_t pgid = 0;
    uint32_t sid = 0;
    int32_t wait_status = 0;
    std::string comm = {};
};

class Snapshot
{
  public:
    // A file or a directory. A plain image is a snapshot of one member.
    static Result<std::unique_ptr<Snapshot>> open(const std::string &path,
                                                  OpenOptions options = {});

    // A file that is open. `name` is for messages.
    static Result<std::unique_ptr<Snapshot>> open(Fd fd, const std::string &name,
                                                  OpenOptions options = {});

    const std::vector<SnapshotMember> &members() const { return members_; }
    Scope scope() const { return scope_; }
    uint32_t root_pid() const { return root_pid_; }
    bool is_directory() const { return directory_.has_value(); }
    bool is_plain() const { return !tree_; }
    // The backend that made a plain image and alone can restore it (record FOREIGN); else empty.
    const std::string &maker() const { return maker_; }

    // Opens and checks the image that the tree names. ENOENT: the member has no image.
    Result<std::unique_ptr<Image>> open_member(const SnapshotMember &member) const
    {
        return open_member(member, 0);
    }

  private:
    Result<void> take(std::unique_ptr<Image> image);
    Result<void> read_tree(Image &tree);
    Result<void> check_places(const Image &tree) const;
    // `below`: images that are based on it.
    Result<std::unique_ptr<Image>> open_member(const SnapshotMember &member, unsigned below) const;
    Result<void> find_base_of(Image &image, unsigned below) const;
    Result<std::unique_ptr<Image>> open_in_directory(const std::string &name) const;

    std::string path_;
    Fd fd_; // of the file, where it was open
    OpenOptions options_;
    std::optional<Directory> directory_;
    bool tree_ = false;
    Scope scope_ = Scope::process;
    uint32_t root_pid_ = 0;
    std::string maker_;
    std::vector<SnapshotMember> members_;
    mutable std::map<Digest, std::weak_ptr<Image>> bases_; // that are in use
    // A plain image, opened and checked already: open_member() hands it out once.
    mutable std::unique_ptr<Image> only_;
};

// Copies the images of an archive or a plain image to `sink`, with the scope and root of another
// request for them (`as`). `name` is for messages.
Result<Committed> copy_snapshot(const Fd &from, const std::string &name, std::unique_ptr<Sink> sink,
                                const Tree &as);

} // namespace cryo::image
