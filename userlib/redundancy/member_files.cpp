// SPDX-License-Identifier: Apache-2.0
#include "redundancy/member_files.hpp"

#include "base/sync.hpp"
#include "base/write_all.hpp"
#include "redundancy/io.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::redundancy {

namespace {

constexpr const char *way_out = "choose another directory for what is rebuilt";
constexpr mode_t complete_mode = 0400; // as of images that were written by their process

// Where others may rename what is in it, they could exchange an image, which is a program.
Result<void> check_place(const Directory &here)
{
    return check_own(here.fd(), here.path(), way_out);
}

// Makes it if it is not there.
Result<Directory> make_step(const Directory &here, const std::string &step)
{
    if (Result<void> own = check_place(here); !own)
        return own.error();
    Result<Directory> made = here.make(step);
    if (made) {
        if (Result<void> synced = here.sync(); !synced)
            return synced.error();
        return made;
    }
    return made.error().code() == EEXIST ? here.enter(step) : std::move(made);
}

// The directory in which the file is: what there is, or with `make` what has to be there.
Result<Directory> walk(const Directory &top, const std::string &name, bool make, std::string &file)
{
    Result<Directory> here = Directory::of(top.fd(), top.path());
    size_t at = 0;
    for (size_t slash = name.find('/'); here && slash != std::string::npos;
         slash = name.find('/', at)) {
        const std::string step = name.substr(at, slash - at);
        at = slash + 1;
        here = make ? make_step(*here, step) : here->enter(step);
    }
    file = name.substr(at);
    return here;
}

std::string fresh_name(const std::string &name)
{
    return fmt::format(".{}.tmp", name);
}

Error damaged(const std::string &path, const std::string &what)
{
    return {EBADMSG, fmt::format("{}: is not what was saved ({})", path, what)};
}

} // namespace

Result<Directory> enter_parent(const Directory &top, const std::string &name, std::string &file)
{
    return walk(top, name, false, file);
}

MemberReader::MemberReader(const Directory &directory, const SetMember &member, const Trust &trust)
    : directory_(directory), member_(member), trust_(trust)
{}

bool MemberReader::next(image::MutableBytes block)
{
    bool whole = true;
    while (!block.empty() && index_ < member_.files.size()) {
        if (!begun_)
            begin_file();
        const image::MutableBytes piece =
            block.first(std::min<uint64_t>(block.size(), file().bytes - at_));
        if (!piece.empty()) {
            read_piece(piece);
            whole = whole && readable_;
            block = block.subspan(piece.size());
        }
        if (at_ == file().bytes)
            end_file();
    }
    std::ranges::fill(block, uint8_t(0));
    return whole;
}

void MemberReader::finish()
{
    while (index_ < member_.files.size()) {
        if (!begun_)
            begin_file();
        end_file();
    }
}

void MemberReader::note(const Error &trouble)
{
    if (!noted_)
        troubles_.push_back(trouble);
    noted_ = true;
}

void MemberReader::begin_file()
{
    begun_ = true;
    at_ = 0;
    noted_ = false;
    readable_ = false;
    hasher_.reset();
    std::string name;
    const Result<Directory> parent = enter_parent(directory_, file().name, name);
    if (!parent)
        return note(parent.error());
    fd_ = Fd(openat(parent->fd(), name.c_str(),
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd_ || fstat(fd_.get(), &status) != 0)
        return note(Error::from_errno(path(), errno));
    if (!S_ISREG(status.st_mode))
        return note(Error(EINVAL, path() + ": is no regular file"));
    if (Result<void> good = trust_.check(fd_.get(), path()); !good)
        return note(good.error());
    readable_ = true;
    if (static_cast<uint64_t>(status.st_size) != file().bytes)
        note(damaged(path(), fmt::format("{} of {} bytes", status.st_size, file().bytes)));
}

// What cannot be read is zeros.
void MemberReader::read_piece(image::MutableBytes piece)
{
    at_ += piece.size();
    size_t there = 0;
    if (readable_) {
        const Result<size_t> n = read_up_to(fd_.get(), path(), piece);
        if (!n)
            note(n.error());
        else
            there = *n;
    }
    hasher_.add(piece.first(there));
    if (there == piece.size())
        return;
    if (readable_)
        note(damaged(path(), fmt::format("it ends before {} bytes", at_)));
    readable_ = false;
    std::ranges::fill(piece.subspan(there), uint8_t(0));
}

void MemberReader::end_file()
{
    if (!noted_ && hasher_.digest().hex() != file().checksum)
        note(damaged(path(), "checksum"));
    fd_.reset();
    begun_ = false;
    index_++;
}

MemberWriter::~MemberWriter()
{
    if (committed_)
        return;
    for (const Made &one : made_)
        remove(one);
}

void MemberWriter::remove(const Made &made) const
{
    std::string name;
    if (const Result<Directory> parent = enter_parent(directory_, made.name, name); parent)
        unlinkat(parent->fd(), (made.complete ? name : fresh_name(name)).c_str(), 0);
}

Result<void> MemberWriter::give_name(Made &made) const
{
    std::string name;
    const Result<Directory> parent = enter_parent(directory_, made.name, name);
    if (!parent)
        return parent.error();
    if (Result<void> own = check_place(*parent); !own) // it may be another one by now
        return own;
    if (Result<void> named = parent->rename(fresh_name(name), name); !named)
        return named;
    made.complete = true;
    return parent->sync();
}

Result<void> MemberWriter::begin_file()
{
    begun_ = true;
    at_ = 0;
    hasher_.reset();
    std::string name;
    const Result<Directory> parent = walk(directory_, file().name, true, name);
    if (!parent)
        return parent.error();
    if (Result<void> own = check_place(*parent); !own)
        return own;
    // One that is there was left by a rebuild that was killed.
    const std::string fresh = fresh_name(name);
    if (Result<void> gone = parent->remove(fresh); !gone)
        return gone;
    fd_ = Fd(openat(parent->fd(), fresh.c_str(),
                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd_)
        return Error::from_errno(parent->path(fresh), errno);
    made_.push_back({.name = file().name});
    return {};
}

Result<void> MemberWriter::end_file()
{
    const std::string path = directory_.path(file().name);
    if (hasher_.digest().hex() != file().checksum)
        return damaged(path, "checksum of what was made from the other nodes' data");
    if (fchmod(fd_.get(), complete_mode) != 0)
        return Error::from_errno(path, errno);
    if (const int error = sync_file(fd_.get()))
        return Error::from_errno(path, error);
    fd_.reset();
    begun_ = false;
    index_++;
    return {};
}

Result<void> MemberWriter::next(image::Bytes block)
{
    while (!block.empty() && index_ < member_.files.size()) {
        Result<void> done = begun_ ? Result<void>() : begin_file();
        if (!done)
            return done;
        const image::Bytes piece =
            block.first(std::min<uint64_t>(block.size(), file().bytes - at_));
        if (!piece.empty()) {
            hasher_.add(piece);
            at_ += piece.size();
            block = block.subspan(piece.size());
            done = write_all(fd_.get(), directory_.path(file().name), piece);
        }
        if (done && at_ == file().bytes)
            done = end_file();
        if (!done)
            return done;
    }
    return {};
}

Result<void> MemberWriter::commit()
{
    while (index_ < member_.files.size()) {
        Result<void> done = begun_ ? Result<void>() : begin_file();
        if (done)
            done = end_file();
        if (!done)
            return done;
    }
    for (Made &one : made_) {
        if (Result<void> named = give_name(one); !named)
            return named;
    }
    committed_ = true;
    return {};
}

} // namespace cryo::redundancy
