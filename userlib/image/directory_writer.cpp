// SPDX-License-Identifier: Apache-2.0
// A snapshot as a directory: built beside its place under a hidden name, then renamed as a whole.
#include "base/directory.hpp"
#include "base/sync.hpp"
#include "image/snapshot.hpp"
#include "image/tree_directory.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <stdio.h>
#include <sys/stat.h>
#include <utility>

namespace cryo::image {

namespace {

namespace fs = std::filesystem;

// Exchanges two directories; returns 0 or an errno. Where a rename has no flags (NFS, 9p), `b` is
// missing for a moment.
int exchange(const std::string &a, const std::string &b)
{
    if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0)
        return 0;
    if (errno != EINVAL)
        return errno;
    // Not a name of what is left over: if this process is killed here, the old directory stays.
    const fs::path aside =
        fs::path(b).replace_filename(random_name(fs::path(b).filename()) + ".old");
    if (rename(b.c_str(), aside.c_str()) != 0)
        return errno;
    int error = 0;
    if (rename(a.c_str(), b.c_str()) != 0) {
        error = errno;
    } else if (rename(aside.c_str(), a.c_str()) != 0) {
        error = errno;
        static_cast<void>(rename(b.c_str(), a.c_str()));
    } else {
        return 0;
    }
    static_cast<void>(rename(aside.c_str(), b.c_str()));
    return error;
}

class DirectoryWriter : public TreeWriter
{
  public:
    DirectoryWriter(fs::path path, FileOptions options)
        : path_(std::move(path)), options_(std::move(options))
    {}
    ~DirectoryWriter() override
    {
        if (temporary_.empty())
            return;
        const Result<Directory> parent = Directory::of(directory_.get(), parent_.native());
        const std::string name = temporary_.filename();
        if (parent && is_old_)
            static_cast<void>(remove_tree_directory(*parent, name));
        else if (parent)
            remove_new(*parent, name);
    }

    Result<void> open();
    Result<std::unique_ptr<ImageWriter>> begin_member(WriterOptions options) override;
    Result<Committed> end_member(ImageWriter &writer, Member about) override;
    void add_without_image(Member about) override;
    Result<Committed> commit(Tree tree) override;

  private:
    // A member with the text that it points to.
    struct Kept {
        Member member;
        std::string name, comm;
    };
    void remove_new(const Directory &parent, const std::string &name) const;
    Result<void> check_existing() const;
    Result<void> publish();
    enum class Before { nothing, replaced, kept };
    void tell_how_to_end(Fd ours, Fd old, const fs::path &aside, Before before);
    Result<std::string> backup_name() const;
    FileOptions inner() const
    {
        return {.existing = Existing::refuse, .sync = options_.sync, .mode = options_.mode};
    }
    Error failure(std::string_view doing, int err) const
    {
        return Error::from_errno(fmt::format("{}: {}", path_.native(), doing), err);
    }

    fs::path path_;
    FileOptions options_;
    fs::path parent_;
    fs::path temporary_;
    bool is_old_ = false; // temporary_ now names the replaced snapshot
    Fd directory_;        // parent_
    Fd building_;         // the new directory, held
    std::vector<Kept> members_;
    uint64_t size_ = 0;
};

// Only this process knows the temporary directory's name, so all of it may be removed.
void DirectoryWriter::remove_new(const Directory &parent, const std::string &name) const
{
    if (const Result<Directory> made = parent.enter(name); made) {
        made->clear();
        static_cast<void>(parent.remove(name));
    }
}

// Refuses anything but an empty directory or a Cryo snapshot, so that nothing else is removed.
Result<void> DirectoryWriter::check_existing() const
{
    const Result<Directory> parent = Directory::of(directory_.get(), parent_.native());
    if (!parent)
        return parent.error();
    const std::string name = path_.filename();
    const Result<std::optional<struct stat>> status = parent->look(name);
    if (!status)
        return status.error();
    if (!status->has_value())
        return {};
    if (!S_ISDIR((*status)->st_mode))
        return Error(ENOTDIR, path_.native() + ": is there, and is no directory");
    const Result<Directory> old = parent->enter(name);
    const Result<std::vector<std::string>> names = old ? old->names() : old.error();
    if (!names)
        return names.error();
    if (names->empty())
        return {};
    if (options_.existing == Existing::refuse)
        return Error(EEXIST,
                     path_.native() + ": exists; choose another name or allow it to be replaced");
    return check_tree_directory(*parent, name);
}

Result<void> DirectoryWriter::open()
{
    while (path_.has_relative_path() && path_.filename().empty())
        path_ = path_.parent_path(); // a slash at the end
    if (path_.filename().empty() || path_.filename() == "." || path_.filename() == "..")
        return Error(EINVAL, path_.native() + ": is not the name of a new directory");
    parent_ = path_.has_parent_path() ? path_.parent_path() : fs::path(".");
    directory_ = Fd(::open(parent_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory_)
        return Error::from_errno(parent_.native(), errno);
    if (auto ok = check_existing(); !ok)
        return ok;
    if (options_.existing == Existing::backup) {
        if (auto ok = check_backup_place(directory_.get(), options_.backup); !ok)
            return ok;
    }
    const Result<Directory> parent = Directory::of(directory_.get(), parent_.native());
    if (!parent)
        return parent.error();
    const std::string name = path_.filename();
    remove_left_over(*parent, name);
    Result<Building> built = make_building(*parent, name);
    if (!built)
        return built.error().within("making a directory beside " + path_.native());
    temporary_ = parent_ / built->name;
    building_ = std::move(built->lock);
    return {};
}

// The member gets its own name in end_member(), when its pid is known.
Result<std::unique_ptr<ImageWriter>> DirectoryWriter::begin_member(WriterOptions options)
{
    auto sink = FileSink::create(temporary_ / kNewMember, inner());
    if (!sink)
        return sink.error();
    return ImageWriter::create(std::move(*sink), options);
}

Result<Committed> DirectoryWriter::end_member(ImageWriter &writer, Member about)
{
    auto done = writer.commit();
    if (!done)
        return done;
    Kept &kept = members_.emplace_back();
    kept.name = fmt::format("context.{}", about.pid);
    kept.comm = about.comm;
    about.state = MemberState::saved;
    about.offset = 0;
    about.length = done->size;
    about.image_id = done->id.bytes();
    about.checksum = done->checksum.bytes();
    kept.member = about;
    size_ += done->size;
    if (rename((temporary_ / kNewMember).c_str(), (temporary_ / kept.name).c_str()) != 0)
        return failure("naming a member", errno);
    return done;
}

void DirectoryWriter::add_without_image(Member about)
{
    Kept &kept = members_.emplace_back();
    kept.comm = about.comm;
    about.offset = about.length = 0;
    kept.member = about;
}

Result<std::string> DirectoryWriter::backup_name() const
{
    if (!options_.backup.name.empty())
        return options_.backup.name;
    Result<std::string> next = next_backup(directory_.get(), path_.filename().native());
    if (!next)
        return next.error();
    return (parent_ / *next).native();
}

// Exchanges an old snapshot with the new one, so that the name has a snapshot at any moment.
Result<void> DirectoryWriter::publish()
{
    if (chmod(temporary_.c_str(), 0700) != 0)
        return failure("setting its mode", errno);
    if (options_.publication != nullptr) {
        if (Result<void> may = options_.publication->may_be(temporary_.native()); !may)
            return may;
    }
    Fd ours(::open(temporary_.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!ours)
        return failure("opening it", errno);
    // rename() also replaces an empty directory.
    if (rename(temporary_.c_str(), path_.c_str()) == 0) {
        tell_how_to_end(std::move(ours), Fd(), temporary_, Before::nothing);
        temporary_.clear();
        return {};
    }
    if ((errno != ENOTEMPTY && errno != EEXIST) || options_.existing == Existing::refuse)
        return failure("giving the directory its name", errno);
    if (auto ok = check_existing(); !ok)
        return ok;
    const bool keeps = options_.existing == Existing::backup;
    // The old one will have this name for a moment; a backup must not look like what is left over.
    if (keeps) {
        const fs::path kept = temporary_.native() + ".old";
        if (rename(temporary_.c_str(), kept.c_str()) != 0)
            return failure("renaming it", errno);
        temporary_ = kept;
    }
    const Result<std::string> old_name = keeps ? backup_name() : temporary_.native();
    if (!old_name)
        return old_name.error();
    // The old one may have to come back: so no other checkpoint removes it.
    const Result<Directory> parent = Directory::of(directory_.get(), parent_.native());
    Fd old = parent ? hold_directory(*parent, path_.filename()) : Fd();
    if (const int error = exchange(temporary_, path_))
        return failure("changing places with the old directory", error);
    if (keeps && rename(temporary_.c_str(), old_name->c_str()) != 0) {
        const Error why = failure("keeping the old directory as " + *old_name, errno);
        // Give the old one its name back; if that fails, leave it where it is.
        if (exchange(temporary_, path_) != 0)
            temporary_.clear();
        return why;
    }
    if (options_.publication == nullptr) {
        is_old_ = !keeps; // the destructor removes it
        if (keeps) {
            temporary_.clear();
            remove_old_backups(directory_.get(), path_.filename(), options_.backup);
        }
        return {};
    }
    tell_how_to_end(std::move(ours), std::move(old), *old_name,
                    keeps ? Before::kept : Before::replaced);
    temporary_.clear();
    return {};
}

// `aside`: where the replaced directory, `old`, is now; a free name if nothing was replaced.
void DirectoryWriter::tell_how_to_end(Fd ours, Fd old, const fs::path &aside, Before before)
{
    if (options_.publication == nullptr)
        return;
    const auto remove = [aside]() -> Result<void> {
        const Result<Directory> parent =
            Directory::open(aside.has_parent_path() ? aside.parent_path().native() : ".");
        return parent ? remove_tree_directory(*parent, aside.filename()) : parent.error();
    };
    // Kept open as long as it may be taken back: otherwise its inode number could be reused.
    const auto made = std::make_shared<Fd>(std::move(ours));
    const auto held = std::make_shared<Fd>(std::move(old));
    const auto place = std::make_shared<Fd>(fcntl(directory_.get(), F_DUPFD_CLOEXEC, 0));
    options_.publication->has_been(
        [remove, before, place, name = path_.filename().native(), backup = options_.backup] {
            if (before == Before::kept)
                remove_old_backups(place->get(), name, backup);
            return before == Before::replaced ? remove() : Result<void>();
        },
        [remove, made, held, aside, before, path = path_]() -> Result<void> {
            struct stat mine, now;
            if (fstat(made->get(), &mine) != 0 || lstat(path.c_str(), &now) != 0 ||
                mine.st_dev != now.st_dev || mine.st_ino != now.st_ino)
                return Error(EBUSY, path.native() +
                                        ": cannot be withdrawn, for another one has its name now");
            // If the free name has been taken meanwhile, this replaces an empty directory at most.
            int error = 0;
            if (before != Before::nothing)
                error = exchange(aside, path);
            else if (rename(path.c_str(), aside.c_str()) != 0)
                error = errno;
            if (error != 0)
                return Error::from_errno(path.native() + ": taking it back", error);
            return remove();
        });
}

Result<Committed> DirectoryWriter::commit(Tree tree)
{
    std::vector<Member> members;
    for (Kept &kept : members_) {
        kept.member.name = kept.name;
        kept.member.comm = kept.comm;
        members.push_back(kept.member);
    }
    auto sink = FileSink::create(temporary_ / kTreeFile, inner());
    if (!sink)
        return sink.error();
    auto done = write_tree(std::move(*sink), tree, members);
    if (!done)
        return done;
    if (auto ok = publish(); !ok)
        return ok.error();
    if (const int err = options_.sync ? sync_directory(directory_.get()) : 0)
        return failure("fsync of the directory above it", err);
    done->size += size_;
    return done;
}

} // namespace

Result<std::unique_ptr<TreeWriter>> create_directory(const std::string &path,
                                                     const FileOptions &options)
{
    auto writer = std::make_unique<DirectoryWriter>(path, options);
    if (auto ok = writer->open(); !ok)
        return ok.error();
    return std::unique_ptr<TreeWriter>(std::move(writer));
}

} // namespace cryo::image
