// SPDX-License-Identifier: Apache-2.0
#include "store/fresh_directory.hpp"

#include "store/claimant.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo::store {

namespace {

constexpr std::string_view pulled = ".pulled-";
constexpr size_t random_size = 6;          // of mkdtemp(3)
constexpr const char *mark = ".cryo-pull"; // says in it who makes it
constexpr size_t most_mark = 4096;

// What a process that was killed has left beside it. What has no mark is not Cryo's.
void remove_abandoned(const std::string &wanted)
{
    const auto [parent, name] = split_path(wanted);
    const Result<Directory> beside = Directory::open(parent);
    const Result<std::vector<std::string>> names =
        beside ? beside->names() : Result<std::vector<std::string>>(beside.error());
    if (!names)
        return;
    const std::string start = name + std::string(pulled);
    for (const std::string &one : *names) {
        if (!one.starts_with(start) || one.size() != start.size() + random_size)
            continue;
        const Result<Directory> left = beside->enter(one);
        struct stat status = {};
        if (!left || fstat(left->fd(), &status) != 0 || status.st_uid != geteuid())
            continue;
        const Result<std::string> text = left->read(mark, most_mark);
        const std::optional<Claimant> maker = text ? Claimant::parse(*text) : std::nullopt;
        if (!maker || !maker->has_ended())
            continue;
        left->clear();
        static_cast<void>(beside->remove(one));
    }
}

// The directories that the names of the files want.
std::set<std::string> directories_of(const Manifest &manifest)
{
    std::set<std::string> directories;
    for (const StoredFile &file : manifest.files) {
        for (size_t at = file.name.find('/'); at != std::string::npos;
             at = file.name.find('/', at + 1))
            directories.insert(file.name.substr(0, at));
    }
    return directories;
}

} // namespace

Result<FreshDirectory> FreshDirectory::make(const std::string &wanted, const Manifest &manifest)
{
    struct stat status = {};
    if (lstat(wanted.c_str(), &status) == 0)
        return Error::from_errno(wanted, EEXIST);
    remove_abandoned(wanted);
    std::string path = wanted + std::string(pulled) + std::string(random_size, 'X');
    if (mkdtemp(path.data()) == nullptr)
        return Error::from_errno(wanted, errno);
    Result<Directory> opened = Directory::open(path);
    if (!opened)
        return opened.error();
    FreshDirectory made(std::move(path), wanted, std::move(*opened));
    if (Result<void> marked = made.directory_.write(mark, Claimant::self().text()); !marked)
        return marked.error();
    made.below_ = directories_of(manifest);
    for (const std::string &name : made.below_) {
        const std::string whole = made.path_ + "/" + name;
        if (mkdir(whole.c_str(), 0700) != 0)
            return Error::from_errno(whole, errno);
    }
    return made;
}

FreshDirectory::~FreshDirectory()
{
    if (path_.empty())
        return;
    directory_.clear();
    rmdir(path_.c_str());
}

Result<Fd> FreshDirectory::create(const StoredFile &file) const
{
    const std::string path = path_of(file);
    Fd made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!made)
        return Error::from_errno(path, errno);
    return made;
}

Result<void> FreshDirectory::take_name()
{
    for (const std::string &name : below_) {
        const Result<Directory> made = Directory::open(path_ + "/" + name);
        if (Result<void> synced = made ? made->sync() : made.error(); !synced)
            return synced;
    }
    if (Result<void> removed = directory_.remove(mark); !removed)
        return removed;
    if (Result<void> synced = directory_.sync(); !synced)
        return synced;
    if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, wanted_.c_str(), RENAME_NOREPLACE) != 0)
        return Error::from_errno(wanted_, errno);
    path_.clear();
    const auto parent = Directory::open(split_path(wanted_).first);
    return parent ? parent->sync() : parent.error();
}

} // namespace cryo::store
