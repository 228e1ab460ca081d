// SPDX-License-Identifier: Apache-2.0
#include "restore/trusted_path.hpp"

#include "base/trust.hpp"

#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr int most_links = 40; // as the kernel's own limit

class Search
{
  public:
    Search(const RestartOptions &options, const image::File &file, AtEnd at_end)
        : options_(options), file_(file), path_(file.path), owner_(file.uid), at_end_(at_end)
    {}

    Result<Found> find()
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
            const bool is_directory = !rest.empty() || file_.kind == image::FileKind::directory;
            Fd next = is_directory ? open_at(at.get(), name, O_DIRECTORY) : Fd();
            if (!next)
                next = open_at(at.get(), name);
            struct stat status = {};
            if (!next || fstat(next.get(), &status) != 0)
                return Error::from_errno(path_, errno);
            if (S_ISLNK(status.st_mode) && (at_end_ != AtEnd::link || !rest.empty())) {
                const Result<uid_t> owner = check(next.get(), status, "a link on the way to it");
                if (!owner)
                    return owner.error();
                led_by_former_ = led_by_former_ || !options_.trust->is_owner(*owner);
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
            public_ = public_ || (S_ISDIR(status.st_mode) && (status.st_mode & S_IWOTH) != 0);
            at = std::move(next);
        }
        if (!at)
            return Error::from_errno(path_, errno);
        Found found{path_, std::move(at), {}};
        if (fstat(found.fd.get(), &found.status) != 0)
            return Error::from_errno(path_, errno);
        if (is_saved_device(found.status))
            return found;
        const Result<uid_t> owner = check(found.fd.get(), found.status, "it");
        if (!owner)
            return owner.error();
        if (led_by_former_ && *owner != owner_)
            return Error(EPERM,
                         fmt::format("file {}: a link of user {} leads to a file of user {} now; "
                                     "put back what was there, or say with --owner {} that you "
                                     "trust the former",
                                     path_, user_text(owner_), user_text(*owner), owner_));
        return found;
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

    // Device nodes are made by root alone, and a container may not know root as their owner.
    // Terminals with the same number belong to different users over time.
    bool is_saved_device(const struct stat &status) const
    {
        constexpr unsigned first_terminal = 136, last_terminal = 143;
        const unsigned number = major(status.st_rdev);
        return (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) &&
               ((status.st_mode ^ file_.mode) & S_IFMT) == 0 &&
               status.st_rdev == file_.device_number &&
               (number < first_terminal || number > last_terminal);
    }

    // The owner, who may have made it.
    Result<uid_t> check(int fd, const struct stat &status, std::string_view what) const
    {
        const bool is_receiver = at_end_ == AtEnd::receiver;
        if (is_receiver && !public_)
            return uid_t(0); // who rules its directory answers for it
        const std::optional<uid_t> user = options_.trust->owner_of(fd, status);
        if (!user)
            return Error(EPERM,
                         fmt::format("file {}: the owner of {} cannot be determined", path_, what));
        if (options_.trust->is_owner(*user) || (owner_ == *user && !is_unknown(owner_)))
            return *user;
        if (is_receiver)
            return Error(EPERM,
                         fmt::format("socket {}: {} belongs to user {}, where everybody may create "
                                     "files; say with --owner {} that you trust that user",
                                     path_, what, user_text(*user), *user));
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
    const image::File &file_;
    const std::string path_;
    const uid_t owner_; // when it was saved
    const AtEnd at_end_;
    bool public_ = false;        // whether everybody may make files in a directory on the way
    bool led_by_former_ = false; // by a link of the saved owner's, whom nobody else trusts
};

} // namespace

Result<Found> find_trusted(const RestartOptions &options, const image::File &file, AtEnd at_end)
{
    return Search(options, file, at_end).find();
}

} // namespace cryo::restore
