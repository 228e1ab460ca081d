// SPDX-License-Identifier: Apache-2.0
#include "recover/published.hpp"

#include "base/contents.hpp"
#include "base/printable.hpp"
#include "cli/text.hpp"
#include "coord/job.hpp"
#include "coord/place.hpp"
#include "keeper/series.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

constexpr const char *supervised = "supervised";
constexpr size_t most_said = size_t(1) << 20;
constexpr size_t most_command = 4096; // bytes of a command line that may have megabytes

std::string usual_runtime()
{
    char path[PATH_MAX];
    return coord::runtime_directory(environ, path, sizeof(path)) ? path : "";
}

std::string boot_id()
{
    Result<std::string> id = contents("/proc/sys/kernel/random/boot_id");
    if (id && id->ends_with('\n'))
        id->pop_back();
    return id ? *id : std::string();
}

uint64_t own_pid_space()
{
    struct stat status = {};
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

std::optional<uid_t> owner_of(pid_t pid)
{
    struct stat status = {};
    return stat(capture::Proc(pid).path("").c_str(), &status) == 0 ? std::optional(status.st_uid)
                                                                   : std::nullopt;
}

// Root supervises whom it likes; what others say of a process is believed of their own alone. Their
// own is what they have started, whatever rights it has: the real id tells.
bool may_name(uid_t owner, pid_t pid)
{
    if (owner == 0)
        return true;
    const Result<std::string> status = capture::Proc(pid).read("status");
    std::string_view ids = status ? capture::field(*status, "Uid") : std::string_view();
    return !ids.empty() && capture::take_number(ids) == owner;
}

// Whether the directory, once open, is one that `owner` alone may read or change.
bool is_private(const Directory &directory, uid_t owner)
{
    struct stat status = {};
    return fstat(directory.fd(), &status) == 0 && status.st_uid == owner &&
           (status.st_mode & 077) == 0;
}

pid_t number_of(const std::string &name)
{
    pid_t number = 0;
    const char *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    return error == std::errc() && stop == end && number > 0 ? number : 0;
}

std::optional<Published> parse(const std::string &text)
{
    const nlohmann::json said = nlohmann::json::parse(text, nullptr, false);
    if (!said.is_object())
        return {};
    try {
        return said.get<Published>();
    } catch (const nlohmann::json::exception &) {
        return {};
    }
}

std::optional<Published> read_one(const Directory &directory, const std::string &name)
{
    const Result<std::string> text = directory.read(name, most_said);
    std::optional<Published> said = text ? parse(*text) : std::nullopt;
    if (said && said->supervisor != number_of(name))
        said.reset();
    return said;
}

// A directory that is not private to its owner says nothing.
std::optional<Directory> open_private(const std::string &runtime, uid_t owner)
{
    Result<Directory> top = Directory::open(runtime);
    if (!top || !is_private(*top, owner))
        return {};
    Result<Directory> inner = top->enter(supervised);
    if (!inner || !is_private(*inner, owner))
        return {};
    return std::move(*inner);
}

bool is_gone(const Published &said, uid_t owner)
{
    return said.boot != boot_id() || standing_of(said, owner) == Standing::ended;
}

void sweep(const Directory &directory)
{
    const Result<std::vector<std::string>> names = directory.names();
    if (!names)
        return;
    for (const std::string &name : *names) {
        const std::optional<Published> said = read_one(directory, name);
        if (said && is_gone(*said, geteuid()))
            static_cast<void>(directory.remove(name));
    }
}

// The directory of a keeper's images, from the lock that it holds; "": unknown.
std::string directory_of_keeper(const capture::Proc &keeper)
{
    const Result<std::vector<int>> numbers = keeper.numbers("fd");
    if (!numbers)
        return {};
    for (const int fd : *numbers) {
        const Result<std::string> to = keeper.link(fmt::format("fd/{}", fd));
        if (to && to->ends_with("/keeper.lock"))
            return to->substr(0, to->rfind('/'));
    }
    return {};
}

std::string command_of(pid_t pid)
{
    const Result<std::string> words = capture::Proc(pid).read("cmdline");
    std::string text;
    for (const std::string &word : cli::split_strings(words ? *words : ""))
        text += (text.empty() ? "" : " ") + word;
    return text;
}

void find_newest(Published &said)
{
    const keeper::Series series(said.directory);
    const Result<std::string> newest = series.newest();
    struct stat status = {};
    if (!newest || newest->empty() || lstat(series.path(*newest).c_str(), &status) != 0)
        return;
    said.checkpoint = series.path(*newest);
    said.checkpoint_ns = status.st_mtim.tv_sec * int64_t(1'000'000'000) + status.st_mtim.tv_nsec;
}

struct Keeper {
    pid_t pid;
    pid_t program;
    uid_t owner;
};

// The keepers of the caller; root sees all.
std::vector<Keeper> keepers()
{
    std::vector<Keeper> all;
    const Result<std::vector<int>> pids = capture::Proc(getpid()).numbers("..");
    if (!pids)
        return all;
    for (const int pid : *pids) {
        const capture::Proc proc(pid);
        const std::optional<uid_t> owner = owner_of(pid);
        if (!owner || (*owner != geteuid() && geteuid() != 0) ||
            !capture::runs_program(proc, "/cryo/keeper"))
            continue;
        const Result<std::string> words = proc.read("cmdline");
        const std::vector<std::string> list = cli::split_strings(words ? *words : "");
        const pid_t program = list.size() == 2 ? number_of(list[1]) : 0;
        if (started(program) != 0 && may_name(*owner, program))
            all.push_back({pid, program, *owner});
    }
    return all;
}

Seen kept_by(const Keeper &keeper)
{
    Published said = from_here();
    said.program = said.own_pid = keeper.program;
    said.program_started = started(keeper.program);
    said.command = command_of(keeper.program);
    said.directory = directory_of_keeper(capture::Proc(keeper.pid));
    if (keeper.owner == geteuid()) // root does not look into others' directories
        find_newest(said);
    return {said, Standing::kept, keeper.owner};
}

// Programs that are only saved are added; supervised ones are not saved if their keepers are gone.
void add_kept(std::vector<Seen> &all)
{
    const std::vector<Keeper> saving = keepers();
    for (Seen &seen : all) {
        const auto saves = [&](const Keeper &one) {
            return one.program == seen.said.program && one.owner == seen.owner;
        };
        if (seen.standing == Standing::running && std::ranges::none_of(saving, saves))
            seen.standing = Standing::unsaved;
    }
    for (const Keeper &keeper : saving) {
        const auto known = [&](const Seen &seen) {
            return seen.said.program == keeper.program && seen.standing != Standing::elsewhere;
        };
        if (std::ranges::none_of(all, known))
            all.push_back(kept_by(keeper));
    }
}

} // namespace

uint64_t started(pid_t pid)
{
    const Result<capture::Relation> found =
        pid > 0 ? capture::relation_of(pid) : Error(ESRCH, "no process");
    return found && !found->zombie ? found->started : 0;
}

Published from_here()
{
    Published said;
    said.boot = boot_id();
    said.pid_space = own_pid_space();
    return said;
}

Result<Publisher> Publisher::open()
{
    const std::string runtime = usual_runtime();
    if (Result<void> made = coord::make_private(runtime); !made)
        return made.error();
    const std::string path = runtime + "/" + supervised;
    if (Result<void> made = coord::make_private(path); !made)
        return made.error();
    std::optional<Directory> directory = open_private(runtime, geteuid());
    if (!directory)
        return Error(EACCES, path + ": has been exchanged");
    // While it is locked, systemd-tmpfiles removes nothing in it, however old. The lock lasts as
    // long as the descriptor.
    flock(directory->fd(), LOCK_SH | LOCK_NB);
    sweep(*directory);
    return Publisher(std::move(*directory));
}

// Without a sync, which may take seconds while signals wait: after a crash of the machine nobody
// asks for it.
Result<void> Publisher::publish(const Published &said)
{
    const std::string name = std::to_string(said.supervisor);
    const std::string fresh = fmt::format(".{}.tmp", name);
    nlohmann::json all = said;
    if (said.command.size() > most_command)
        all["command"] = said.command.substr(0, most_command) + " ...";
    const std::string text =
        all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    static_cast<void>(directory_.remove(fresh));
    Fd file(openat(directory_.fd(), fresh.c_str(),
                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    const bool written =
        file && write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (written && renameat(directory_.fd(), fresh.c_str(), directory_.fd(), name.c_str()) == 0)
        return {};
    const Error error = Error::from_errno(directory_.path(name), errno != 0 ? errno : ENOSPC);
    static_cast<void>(directory_.remove(fresh));
    withdraw();
    return error;
}

void Publisher::withdraw()
{
    static_cast<void>(directory_.remove(std::to_string(getpid())));
}

const char *name_of(Standing standing)
{
    switch (standing) {
    case Standing::running:
        return "running";
    case Standing::unsaved:
        return "unsaved";
    case Standing::recovering:
        return "recovering";
    case Standing::unsupervised:
        return "unsupervised";
    case Standing::kept:
        return "kept";
    case Standing::ended:
        return "ended";
    case Standing::elsewhere:
        break;
    }
    return "elsewhere";
}

bool is_protected(Standing standing)
{
    return standing == Standing::running || standing == Standing::recovering;
}

Standing standing_of(const Published &said, uid_t owner)
{
    if (said.boot != boot_id())
        return Standing::ended;
    if (said.pid_space != own_pid_space())
        return Standing::elsewhere;
    const bool supervises = said.supervisor_started != 0 &&
                            started(said.supervisor) == said.supervisor_started &&
                            owner_of(said.supervisor) == owner;
    const bool runs = said.program_started != 0 && started(said.program) == said.program_started &&
                      may_name(owner, said.program);
    if (!supervises)
        return runs ? Standing::unsupervised : Standing::ended;
    return !runs ? Standing::recovering : said.kept ? Standing::running : Standing::unsaved;
}

std::vector<Seen> look_into(const std::string &runtime, uid_t owner)
{
    std::vector<Seen> all;
    const std::optional<Directory> directory = open_private(runtime, owner);
    const Result<std::vector<std::string>> names =
        directory ? directory->names() : Error(ENOENT, runtime);
    if (!names)
        return all;
    for (const std::string &name : *names) {
        const std::optional<Published> said = read_one(*directory, name);
        if (said && said->boot == boot_id())
            all.push_back({*said, standing_of(*said, owner), owner});
    }
    return all;
}

std::vector<Seen> look_around()
{
    namespace fs = std::filesystem;
    const std::string own = usual_runtime();
    std::vector<Seen> all = look_into(own, geteuid());
    const auto add = [&](const std::string &path, uid_t owner) {
        if (path == own)
            return;
        const std::vector<Seen> more = look_into(path, owner);
        all.insert(all.end(), more.begin(), more.end());
    };
    if (geteuid() != 0) {
        add(fmt::format("{}{}", coord::common_runtime, geteuid()), geteuid());
    } else {
        const fs::path prefix(coord::common_runtime);
        const Result<Directory> top = Directory::open(prefix.parent_path());
        const Result<std::vector<std::string>> names =
            top ? top->names() : Result<std::vector<std::string>>(top.error());
        for (const std::string &name : names ? *names : std::vector<std::string>()) {
            const std::string start = prefix.filename();
            if (!name.starts_with(start))
                continue;
            const std::string user = name.substr(start.size());
            if (user == "0" || number_of(user) != 0)
                add(top->path(name), static_cast<uid_t>(number_of(user)));
        }
    }
    add_kept(all);
    std::ranges::sort(all, {}, [](const Seen &seen) {
        return std::pair(seen.said.supervisor, seen.said.program);
    });
    return all;
}

} // namespace cryo::recover
