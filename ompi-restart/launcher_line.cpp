// SPDX-License-Identifier: Apache-2.0
#include "launcher_line.hpp"

#include "shares.hpp"

#include "cli/command.hpp"
#include "coord/launch.hpp"
#include "coord/launcher_options.hpp"
#include "coord/launcher_words.hpp"
#include "sys/own_variable.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>
#include <utility>

using cryo::Result;
using cryo::coord::LauncherOptions;
using cryo::coord::Placement;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotStore;

namespace {

// The path of a command beside this one.
std::string own_command(const std::string &name)
{
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / name;
}

bool can_run(const std::string &program)
{
    return access(cryo::coord::whole_path(program).c_str(), X_OK) == 0;
}

std::vector<std::string> rank_command(const SnapshotStore &store, const Snapshot &snapshot,
                                      const Options &options, int rank)
{
    std::vector<std::string> words = {own_command("opal-restart"), "-l",
                                      fmt::format("{}/{}", store.path(), snapshot.seq)};
    for (const std::string &owner : options.owners)
        words.insert(words.end(), {"--owner", owner});
    if (rank >= 0) {
        words.emplace_back("-r");
        words.push_back(cryo::coord::rank_directory(static_cast<uint32_t>(rank)));
    }
    return words;
}

// srun's option for how its ranks find it, without which there is no restart.
std::vector<std::string> kind_of_mpi(const std::vector<std::string> &words)
{
    for (size_t i = 0; i < words.size(); i++) {
        if (words[i].starts_with("--mpi="))
            return {words[i]};
        if (words[i] == "--mpi" && i + 1 < words.size())
            return {words[i], words[i + 1]};
    }
    return {};
}

// With which the job was started, and which mean the same to this launcher.
LauncherOptions options_of_job(const Snapshot &snapshot, const Options &options,
                               const std::string &launcher, const std::vector<std::string> &given,
                               bool placed)
{
    const bool is_same =
        !snapshot.command.empty() &&
        cryo::coord::whole_path(launcher) == cryo::coord::whole_path(snapshot.command.front());
    if (options.fresh_options || !is_same) {
        const bool needs_kind = cryo::coord::is_srun(launcher) && kind_of_mpi(given).empty();
        return {.words = needs_kind ? kind_of_mpi(snapshot.command) : std::vector<std::string>()};
    }
    return cryo::coord::launcher_options(cryo::coord::without_exports(snapshot.command),
                                         snapshot.directory, given, placed);
}

void add(std::vector<std::string> &words, const std::vector<std::string> &more)
{
    words.insert(words.end(), more.begin(), more.end());
}

} // namespace

std::vector<std::string> split_words(const std::string &text)
{
    std::vector<std::string> words;
    std::string word;
    bool inside = false;
    char quote = 0;
    for (size_t i = 0; i < text.size(); i++) {
        const char c = text[i];
        if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
            if (inside)
                words.push_back(std::exchange(word, {}));
            inside = false;
            continue;
        }
        inside = true;
        if (quote != 0 && c == quote)
            quote = 0;
        else if (quote == 0 && (c == '\'' || c == '"'))
            quote = c;
        else if (c == '\\' && quote != '\'' && i + 1 < text.size())
            word += text[++i];
        else
            word += c;
    }
    if (inside)
        words.push_back(word);
    return words;
}

std::string launcher_of(const Snapshot &snapshot, const Options &options)
{
    if (!options.mpirun.empty())
        return options.mpirun;
    if (const char *own = cryo::sys::own_variable("CRYO_MPIRUN"); own != nullptr && *own != 0)
        return own;
    const std::string name =
        snapshot.command.empty()
            ? ""
            : std::filesystem::path(snapshot.command.front()).filename().string();
    // mpirun of 5.0 becomes prterun, which does not exist where an earlier release is installed.
    if (name == "prterun" && !can_run(snapshot.command.front()))
        return can_run("mpirun.openmpi") ? "mpirun.openmpi" : "mpirun";
    return name.find("mpi") != std::string::npos || name.find("run") != std::string::npos
               ? snapshot.command.front()
               : "mpirun";
}

std::vector<std::string> launcher_line(const SnapshotStore &store, const Snapshot &snapshot,
                                       const Options &options, const Placement *placement)
{
    std::vector<std::string> words = {launcher_of(snapshot, options)};
    const std::string launcher = words.front();
    std::vector<std::string> given = split_words(options.mpirun_opts);
    const bool is_srun = cryo::coord::is_srun(launcher);
    if (!options.hostfile.empty()) {
        given.emplace_back(is_srun ? "--nodelist" : "--hostfile");
        given.push_back(is_srun ? std::filesystem::absolute(options.hostfile).string()
                                : options.hostfile);
    }
    add(given, cryo::coord::host_options(launcher, options.hosts));
    if (placement != nullptr)
        add(given, placing_words(launcher, *placement));
    const LauncherOptions of_job =
        options_of_job(snapshot, options, launcher, given, placement != nullptr);
    if (!of_job.unknown.empty())
        cryo::cli::say(options.command,
                       fmt::format("the job was started with {} {}, which Cryo does not know: "
                                   "neither this nor what follows is given again; if it is needed, "
                                   "give it with --mpirun_opts",
                                   snapshot.command.front(), of_job.unknown));
    add(words, of_job.words);
    add(words, given);
    // Ranks reach the launcher by an address, because a
    // descriptor would collide with those that the image holds.
    if (cryo::coord::is_hydra(launcher))
        words.emplace_back("-pmi-port");
    add(words, cryo::coord::export_options(launcher));
    add(words, {"-n", std::to_string(snapshot.images.size())});
    add(words, rank_command(store, snapshot, options, -1));
    return words;
}

std::vector<std::string> bringing_line(const SnapshotStore &store, const Snapshot &snapshot,
                                       const Options &options, const std::string &node)
{
    const std::string launcher = launcher_of(snapshot, options);
    std::vector<std::string> given = split_words(options.mpirun_opts);
    std::vector<std::string> words = {launcher};
    add(words, options_of_job(snapshot, options, launcher, given, true).words);
    given.insert(given.begin(), launcher);
    add(words, cryo::coord::launcher_options(given, "", {}, true).words);
    add(words, words_for_one(launcher, node));
    add(words,
        {"-n", "1", own_command("ompi-restart"), "--bring", "--seq", std::to_string(snapshot.seq)});
    for (const std::string &owner : options.owners)
        add(words, {"--owner", owner});
    words.push_back(store.path());
    return words;
}

Result<std::string> write_appfile(const SnapshotStore &store, const Snapshot &snapshot,
                                  const Options &options)
{
    constexpr const char *name = "restart-appfile";
    std::string lines;
    for (const auto &image : snapshot.images)
        lines += fmt::format(
            "-np 1 {}\n",
            fmt::join(rank_command(store, snapshot, options, static_cast<int>(image.rank)), " "));
    if (Result<void> written = store.directory().write(name, lines); !written)
        return written.error();
    return store.directory().path(name);
}
