// SPDX-License-Identifier: Apache-2.0
#include "restore/trusted_path.hpp"

#include "base/trust.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr int most_links = 40; // as the kernel's own limit

class Search
{
  public:
    Search(const RestartOptions &options, const image::File &file)
        : options_(options), path_(file.path), owner_(file.uid)
    {}

    Result<Fd> find()
    {
        Fd at = open_at(AT_FDCWD, "/");
        std::string rest = path_;
        for (int links = 0; at && !rest.empty();) {
            const size_t slash = std::min(rest.find('/'), rest.size());
            const std::string name = rest.substr(0, slash);
            rest.erase(0, slash + 1);
            if (name.empty())
                continue;
            // Opened as a directory, so that an automounter mounts what belongs there.
            Fd next = rest.empty() ? Fd() : open_at(at.get(), name, O_DIRECTORY);
            if (!next)
                next = open_at(at.get(), name);
            struct stat status = {};
            if (!next || fstat(next.get(), &status) != 0)
                return Error::from_errno(path_, errno);
            if (S_ISLNK(status.st_mode)) {
                if (Result<void> good = check(next.get(), status, "a link on the way to it"); !good)
                    return good.error();
                Result<std::string> target = read_link(next.get());
                if (!target)
                    return target.error();
                if (++links > most_links)
                    return Error(ELOOP, path_);
                if (target->front() == '/')
                    at = open_at(AT_FDCWD, "/");
                rest = target->append("/").append(rest);
                continue;
            }
            at = std::move(next);
        }
        struct stat status = {};
        if (!at || fstat(at.get(), &status) != 0)
            return Error::from_errno(path_, errno);
        if (Result<void> good = check(at.get(), status, "it"); !good)
            return good.error();
        return at;
    }

  private:
    static Fd open_at(int directory, const std::string &name, int as = 0)
    {
        return Fd(openat(directory, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC | as));
    }

    Result<std::string> read_link(int link) const
    {
        std::string target(PATH_MAX, 0);
        const ssize_t size = readlinkat(link, "", target.data(), target.size());
        if (size <= 0)
            return Error::from_errno(path_, size < 0 ? errno : EINVAL);
        target.resize(static_cast<size_t>(size));
        return target;
    }

    Result<void> check(int fd, const struct stat &status, std::string_view what) const
    {
        const std::optional<uid_t> user = options_.trust->owner_of(fd, status);
        if (!user)
            return Error(EPERM,
                         fmt::format("file {}: it cannot be told to whom {} belongs", path_, what));
        if (options_.trust->is_owner(*user) || (owner_ == *user && !is_unknown(owner_)))
            return {};
        if (is_unknown(owner_))
            return Error(EPERM,
                         fmt::format("file {}: {} belongs to user {}, and whose it was is not "
                                     "known, as in a user namespace; say with --owner {} that you "
                                     "trust that user",
                                     path_, what, user_text(*user), *user));
        return Error(
            EPERM,
            fmt::format(
                "file {}: {} belongs to user {}, and what was saved to user {}; put that back, "
                "or say with --owner {} that you trust the other one",
                path_, what, user_text(*user), user_text(owner_), *user));
    }

    const RestartOptions &options_;
    const std::string path_;
    const uid_t owner_; // when it was saved
};

} // namespace

Result<Fd> find_trusted(const RestartOptions &options, const image::File &file)
{
    return Search(options, file).find();
}

} // namespace cryo::restore
