// SPDX-License-Identifier: Apache-2.0
#include "metrics/collector.hpp"

#include "base/open_found.hpp"
#include "metrics/commands.hpp"

#include <algorithm>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <memory>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::metrics {

namespace {

constexpr mode_t others_write = S_IWGRP | S_IWOTH;
constexpr mode_t all_look = S_IROTH | S_IXOTH; // at the names, and at what they are of
constexpr size_t most_names = 4096;            // that are read in one directory
constexpr size_t most_programs = 10'000;       // in one answer
constexpr size_t most_of_directory = 1000;
constexpr off_t most_bytes = 16 << 10; // of one file; a keeper writes less than 2 KiB
constexpr size_t most_told = 32;       // of one user

constexpr Family programs_read = {"cryo_metrics_programs", Type::gauge,
                                  "Files of programs that were read."};
constexpr Family files_refused = {"cryo_metrics_refused", Type::gauge,
                                  "Files and directories that are not used, by their owner."};
constexpr Family directory_read = {"cryo_metrics_directory_up", Type::gauge,
                                   "Whether the directory could be read."};
constexpr Family file_written = {"cryo_metrics_file_timestamp_seconds", Type::gauge,
                                 "When the program's file was written, since 1970.", 3};

// Neither links nor what is mounted there: another user's file system might never answer.
Fd open_inside(int directory, const std::string &name, uint64_t flags)
{
    open_how how = {};
    how.flags = flags | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH;
    Fd fd(static_cast<int>(syscall(SYS_openat2, directory, name.c_str(), &how, sizeof(how))));
    if (!fd && (errno == ENOSYS || errno == EPERM)) // before Linux 5.6, and in some containers
        fd.reset(openat(directory, name.c_str(), static_cast<int>(how.flags)));
    return fd;
}

struct Closing {
    void operator()(DIR *entries) const { closedir(entries); }
};

// False: there are more names than are read.
Result<bool> for_each_name(const Directory &directory,
                           const std::function<void(const std::string &, unsigned char)> &use)
{
    Result<Fd> again = reopen(directory.fd(), O_RDONLY | O_DIRECTORY, directory.path());
    if (!again)
        return again.error();
    const std::unique_ptr<DIR, Closing> entries(fdopendir(again->get()));
    if (!entries)
        return Error::from_errno(directory.path(), errno);
    static_cast<void>(again->release()); // is closed with the entries
    errno = 0;
    size_t count = 0;
    for (const dirent *entry; (entry = readdir(entries.get())) != nullptr; errno = 0) {
        if (++count > most_names)
            return false;
        use(static_cast<const char *>(entry->d_name), entry->d_type);
    }
    if (errno != 0)
        return Error::from_errno(directory.path(), errno);
    return true;
}

Error not_used(const std::string &path, const std::string &why)
{
    return {EACCES, fmt::format("{}: is not used: {}", path, why)};
}

Result<void> check_directory(const Directory &directory, struct stat &status)
{
    if (fstat(directory.fd(), &status) != 0)
        return Error::from_errno(directory.path(), errno);
    if ((status.st_mode & others_write) != 0 && (status.st_mode & S_ISVTX) == 0)
        return Error(EACCES, fmt::format("{}: other users may rename what is in it (mode {:04o}); "
                                         "protect it with chmod go-w, or chmod +t",
                                         directory.path(), status.st_mode & 07777U));
    return {};
}

} // namespace

struct Collector::Place {
    Directory directory;
    uid_t owner = 0;
    std::string user = {};
};

struct Collector::Round {
    Exposition &text;
    size_t programs = 0;
    size_t of_directory = 0; // among them, of the one that is being read
    std::set<std::pair<pid_t, std::string>> seen = {};
    std::map<std::pair<std::string, std::string>, size_t> refused = {}; // by user and reason
};

// Of a directory that is named twice, all would be told twice.
Collector::Collector(std::vector<std::string> directories, std::function<void(const Error &)> tell)
    : tell_(std::move(tell))
{
    for (std::string &path : directories)
        if (std::ranges::find(directories_, path) == directories_.end())
            directories_.push_back(std::move(path));
}

Result<void> Collector::check() const
{
    for (const std::string &path : directories_) {
        const Result<Directory> directory = Directory::open(path);
        struct stat status = {};
        const Result<void> good =
            directory ? check_directory(*directory, status) : directory.error();
        if (!good && good.error().code() == ENOENT)
            return good.error().with_more("; make it, or name another one by --directory");
        if (!good)
            return good.error();
        const Result<bool> read = for_each_name(*directory, [](const auto &, auto) {});
        if (!read)
            return read.error();
    }
    return {};
}

// The names of users change seldom, and to ask for one may take a while.
std::string Collector::name_of(uid_t user)
{
    if (const auto name = names_.find(user); name != names_.end())
        return name->second;
    const passwd *known = getpwuid(user);
    return known != nullptr ? names_[user] = known->pw_name : std::to_string(user);
}

Collector::Place Collector::place_of(Directory directory, const struct stat &status)
{
    return {
        .directory = std::move(directory), .owner = status.st_uid, .user = name_of(status.st_uid)};
}

Result<Collector::Place> Collector::place_at(const std::string &path)
{
    Result<Directory> directory = Directory::open(path);
    struct stat status = {};
    const Result<void> good = directory ? check_directory(*directory, status) : directory.error();
    if (!good)
        return good.error();
    return place_of(std::move(*directory), status);
}

void Collector::refuse(const std::string &user, const char *reason, const Error &error,
                       Round &round)
{
    round.refused[{user, reason}]++;
    auto &told = told_[user];
    if (told.size() < most_told && told.insert(error.text()).second)
        tell_(error);
}

// Calls `use` with its text and when it was written, if it is used.
void Collector::look_at_file(const Place &place, const std::string &name, const Use &use,
                             Round &round)
{
    const std::string path = place.directory.path(name);
    const auto refused = [&](const char *reason, const std::string &why) {
        refuse(place.user, reason, not_used(path, why), round);
    };
    Found found = {.path = path, .fd = open_inside(place.directory.fd(), name, O_PATH)};
    if (!found.fd && errno == ENOENT)
        return; // removed meanwhile
    if (!found.fd || fstat(found.fd.get(), &found.status) != 0)
        return refused("unreadable", strerror(errno));
    const struct stat &status = found.status;
    if (!S_ISREG(status.st_mode))
        return refused("kind", "it is no regular file");
    if (status.st_uid != place.owner || status.st_nlink != 1)
        return refused("owner", "it is not a file of its directory's owner alone");
    if ((status.st_mode & others_write) != 0)
        return refused("mode", "other users may write to it; protect it with chmod go-w");
    // What its owner does not show to others is not told to others.
    if ((status.st_mode & S_IROTH) == 0 && status.st_uid != geteuid())
        return refused("mode", "not every user may read it");
    if (status.st_size > most_bytes)
        return refused("size", fmt::format("it has more than {} bytes", most_bytes));
    if (round.programs >= most_programs || round.of_directory >= most_of_directory)
        return refused("count", "so many programs were read before");

    const Result<Fd> fd = open_found(found, O_RDONLY | O_NONBLOCK);
    std::string text(static_cast<size_t>(most_bytes), '\0');
    const ssize_t read = fd ? ::read(fd->get(), text.data(), text.size()) : -1;
    if (read < 0)
        return refused("unreadable", fd ? strerror(errno) : fd.error().text());
    text.resize(static_cast<size_t>(read));
    const double written = static_cast<double>(status.st_mtim.tv_sec) +
                           static_cast<double>(status.st_mtim.tv_nsec) / 1e9;
    if (const Result<void> used = use(text, written); !used)
        refused(used.error().code() == EEXIST ? "twice" : "form", used.error().text());
}

Result<void> Collector::use_program(const Place &place, pid_t pid, std::string_view text,
                                    double written, Round &round)
{
    const Result<Program> program = parse(text, pid);
    if (!program)
        return program.error();
    if (!round.seen.insert({pid, place.user}).second)
        return Error(EEXIST, "another directory has a file of that process and user");
    round.programs++;
    round.of_directory++;
    add(round.text, *program, place.user);
    round.text.add(
        file_written,
        {{"pid", std::to_string(pid)}, {"command", program->command}, {"user", place.user}},
        written);
    return {};
}

Result<void> Collector::use_commands(const Place &place, std::string_view text, Round &round)
{
    const Result<Commands> commands = parse_commands(text);
    if (!commands)
        return commands.error();
    if (!round.seen.insert({0, place.user}).second)
        return Error(EEXIST, "another directory has such a file of that user");
    add(round.text, *commands, place.user);
    return {};
}

void Collector::look_at_user(const Place &place, const std::string &name, Round &round)
{
    const std::string path = place.directory.path(name);
    const Fd fd = open_inside(place.directory.fd(), name, O_RDONLY | O_DIRECTORY);
    struct stat status = {};
    if (!fd && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
        return; // no directory, of which the kernel did not say so before
    if (!fd || fstat(fd.get(), &status) != 0)
        return refuse(place.user, "unreadable", not_used(path, strerror(errno)), round);
    Result<Directory> directory = Directory::of(fd.get(), path);
    if (!directory)
        return refuse(name_of(status.st_uid), "unreadable", directory.error(), round);
    if ((status.st_mode & others_write) != 0)
        return refuse(name_of(status.st_uid), "mode",
                      not_used(path, "other users may write to it; protect it with chmod go-w"),
                      round);
    if ((status.st_mode & all_look) != all_look && status.st_uid != geteuid())
        return refuse(name_of(status.st_uid), "mode",
                      not_used(path, "not every user may read it and enter it"), round);
    const size_t above = round.of_directory;
    round.of_directory = 0;
    look_into(place_of(std::move(*directory), status), round, false);
    round.of_directory = above;
}

void Collector::look_into(const Place &place, Round &round, bool deeper)
{
    const Result<bool> all =
        for_each_name(place.directory, [&](const std::string &name, unsigned char type) {
            if (const std::optional<pid_t> pid = pid_of(name))
                look_at_file(
                    place, name,
                    [&](std::string_view text, double written) {
                        return use_program(place, *pid, text, written, round);
                    },
                    round);
            else if (name == commands_file)
                look_at_file(
                    place, name,
                    [&](std::string_view text, double) { return use_commands(place, text, round); },
                    round);
            else if (deeper && !name.starts_with('.') && (type == DT_DIR || type == DT_UNKNOWN))
                look_at_user(place, name, round);
        });
    if (!all)
        refuse(place.user, "unreadable", all.error(), round);
    else if (!*all)
        refuse(place.user, "count",
               not_used(place.directory.path(),
                        fmt::format("of its names, only {} are read", most_names)),
               round);
}

void Collector::look(Exposition &text)
{
    Round round{.text = text};
    for (const std::string &path : directories_) {
        const Result<Place> place = place_at(path);
        round.of_directory = 0;
        if (place)
            look_into(*place, round, true);
        else
            refuse("", "unreadable", place.error(), round);
        text.add(directory_read, {{"directory", path}}, place ? 1 : 0);
    }
    text.add(programs_read, {}, static_cast<double>(round.programs));
    for (const auto &[of, count] : round.refused)
        text.add(files_refused, {{"user", of.first}, {"reason", of.second}},
                 static_cast<double>(count));
}

} // namespace cryo::metrics
