// SPDX-License-Identifier: Apache-2.0
#include "server/key.hpp"

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/sync.hpp"
#include "base/trust.hpp"
#include "base/write_all.hpp"
#include "coord/tls.hpp"
#include "server/url.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::server {

namespace {

constexpr size_t digits = 64;
constexpr mode_t for_others = S_IRWXG | S_IRWXO;

std::string home()
{
    const char *named = secure_getenv("HOME");
    if (named != nullptr && *named == '/')
        return named;
    const passwd *known = getpwuid(geteuid());
    return known != nullptr ? known->pw_dir : "/";
}

} // namespace

std::string usual_key_file()
{
    if (const char *named = sys::own_variable("CRYO_SERVER_KEY"))
        return named;
    const char *settings = secure_getenv("XDG_CONFIG_HOME");
    return (settings != nullptr && *settings == '/' ? settings : home() + "/.config") +
           "/cryo/server.key";
}

Result<std::string> read_key(const std::string &path)
{
    const Fd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0) {
        const int code = errno;
        return Error::from_errno(path, code)
            .with_more(code == ENOENT ? "; the server's key belongs there ('cr_server --new-key' "
                                        "makes one), or where CRYO_SERVER_KEY says"
                                      : "");
    }
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, path + ": is no regular file");
    if (Result<void> own = check_own(fd.get(), path, "a key is its owner's alone"); !own)
        return own.error();
    if ((status.st_mode & for_others) != 0)
        return Error(EACCES, fmt::format("{}: other users may read it (mode {:04o}): it is no "
                                         "secret any more; make a new key, for you alone (mode "
                                         "0600)",
                                         path, status.st_mode & 07777U));
    char bytes[digits + 2]; // with a newline, and one that must not be there
    const ssize_t n = read(fd.get(), bytes, sizeof(bytes));
    if (n < 0)
        return Error::from_errno(path, errno);
    std::string text(bytes, static_cast<size_t>(n));
    if (text.ends_with('\n'))
        text.pop_back();
    if (!coord::key_from_hex(text))
        return Error(EINVAL, fmt::format("{}: is no key: that has {} hexadecimal digits, as "
                                         "'cr_server --new-key' makes them",
                                         path, digits));
    return text;
}

namespace {

// And what is missing above it: a new user has no directory of settings yet.
Result<void> make_directory(const std::string &directory)
{
    if (mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST)
        return {};
    if (errno != ENOENT)
        return Error::from_errno(directory, errno);
    if (Result<void> above = make_directory(split_path(directory).first); !above)
        return above;
    if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
        return Error::from_errno(directory, errno);
    return {};
}

} // namespace

Result<void> make_key(const std::string &path)
{
    const auto [parent, name] = split_path(path);
    if (Result<void> made = make_directory(parent); !made)
        return made;
    const Result<Directory> directory = Directory::open(parent);
    if (!directory)
        return directory.error();
    const Fd fd(openat(directory->fd(), name.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return Error::from_errno(path, errno)
            .with_more(errno == EEXIST ? "; a key that is in use is not replaced" : "");
    Result<void> written =
        write_all(fd.get(), path, std::string_view(coord::to_hex(coord::random_key()) + "\n"));
    if (const int error = written ? sync_file(fd.get()) : 0)
        written = Error::from_errno(path, error);
    if (!written)
        unlinkat(directory->fd(), name.c_str(), 0);
    return written ? directory->sync() : written;
}

std::string own_identity()
{
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, sizeof(name) - 1);
    const std::string node(static_cast<const char *>(name));
    return identity_prefix + (is_image_name(node) ? node : "node");
}

std::optional<std::string> node_in(const std::string &identity)
{
    if (!identity.starts_with(identity_prefix))
        return {};
    std::string node = identity.substr(std::string_view(identity_prefix).size());
    return is_image_name(node) ? std::optional(std::move(node)) : std::nullopt;
}

} // namespace cryo::server
