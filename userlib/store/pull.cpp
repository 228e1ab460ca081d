// SPDX-License-Identifier: Apache-2.0
#include "store/pull.hpp"

#include "base/write_all.hpp"
#include "image/checksum.hpp"
#include "store/mover.hpp"
#include "store/parallel.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::store {

namespace {

Result<void> receive(const StoredFile &file, const Location &place, Client &client,
                     const Client::Sink &keep)
{
    const Location at = file.object(place);
    image::Hasher hasher;
    Result<void> got = client.get(at, file.bytes, [&](std::span<const uint8_t> piece) {
        hasher.add(piece);
        return keep ? keep(piece) : Result<void>();
    });
    if (!got)
        return got;
    if (hasher.digest().hex() != file.checksum)
        return Error(EBADMSG, fmt::format("{}: is damaged: the checksum of {} is another one",
                                          at.text(), file.name));
    return {};
}

Result<void> for_each_file(const Manifest &manifest, const Settings &settings,
                           const MoveOptions &options,
                           const std::function<Result<void>(const StoredFile &, Client &)> &work)
{
    Mover mover(options, manifest.files.size());
    mover.expect(manifest.bytes());
    std::vector<std::unique_ptr<Client>> clients;
    for (unsigned i = 0; i < mover.files_at_once(); i++)
        clients.push_back(std::make_unique<Client>(settings, mover.terms()));
    return parallel(manifest.files.size(), mover.files_at_once(), mover.ended(),
                    [&](unsigned worker, size_t index) {
                        return work(manifest.files[index], *clients[worker]);
                    });
}

// A directory under a name of its own beside the wanted one, removed unless it gets that.
class Fresh
{
  public:
    static Result<Fresh> make(const std::string &wanted)
    {
        std::string path = fmt::format("{}.pulled-XXXXXX", wanted);
        if (mkdtemp(path.data()) == nullptr)
            return Error::from_errno(wanted, errno);
        Result<Directory> made = Directory::open(path);
        if (!made)
            return made.error();
        return Fresh(std::move(path), wanted, std::move(*made));
    }
    Fresh(Fresh &&other) noexcept
        : path_(std::exchange(other.path_, "")), wanted_(std::move(other.wanted_)),
          directory_(std::move(other.directory_))
    {}
    Fresh &operator=(Fresh &&) = delete;
    ~Fresh()
    {
        if (path_.empty())
            return;
        directory_.clear();
        rmdir(path_.c_str());
    }

    const std::string &path() const { return path_; }

    Result<void> take_name()
    {
        if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, wanted_.c_str(), RENAME_NOREPLACE) != 0)
            return Error::from_errno(wanted_, errno);
        path_.clear();
        const auto parent = Directory::open(split_path(wanted_).first);
        return parent ? parent->sync() : parent.error();
    }

  private:
    Fresh(std::string path, std::string wanted, Directory directory)
        : path_(std::move(path)), wanted_(std::move(wanted)), directory_(std::move(directory))
    {}

    std::string path_, wanted_;
    Directory directory_;
};

Result<void> keep_file(const StoredFile &file, const Location &place, Client &client,
                       const std::string &directory)
{
    const std::string path = directory + "/" + file.name;
    const Fd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!to)
        return Error::from_errno(path, errno);
    Result<void> got = receive(file, place, client, [&](std::span<const uint8_t> piece) {
        return write_all(to.get(), path, piece);
    });
    if (!got)
        return got;
    if (fsync(to.get()) != 0)
        return Error::from_errno(path, errno);
    return {};
}

// The directories that the names of the files want, each after the one that it is in.
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

Result<void> pull(const Manifest &manifest, const Location &place, const std::string &directory,
                  const Settings &settings, const MoveOptions &options)
{
    struct stat status = {};
    if (lstat(directory.c_str(), &status) == 0)
        return Error::from_errno(directory, EEXIST);
    Result<Fresh> fresh = Fresh::make(directory);
    if (!fresh)
        return fresh.error();
    const std::set<std::string> below = directories_of(manifest);
    for (const std::string &name : below) {
        const std::string path = fresh->path() + "/" + name;
        if (mkdir(path.c_str(), 0700) != 0)
            return Error::from_errno(path, errno);
    }
    Result<void> done =
        for_each_file(manifest, settings, options, [&](const StoredFile &file, Client &client) {
            return keep_file(file, place, client, fresh->path());
        });
    if (!done)
        return done;
    for (const std::string &name : below) {
        const Result<Directory> made = Directory::open(fresh->path() + "/" + name);
        if (Result<void> synced = made ? made->sync() : made.error(); !synced)
            return synced;
    }
    return fresh->take_name();
}

Result<void> verify(const Manifest &manifest, const Location &place, const Settings &settings,
                    const MoveOptions &options)
{
    return for_each_file(manifest, settings, options, [&](const StoredFile &file, Client &client) {
        return receive(file, place, client, {});
    });
}

} // namespace cryo::store
