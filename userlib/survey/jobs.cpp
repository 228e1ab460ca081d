// SPDX-License-Identifier: Apache-2.0
#include "cli/text.hpp"
#include "coord/client.hpp"
#include "coord/launch.hpp"
#include "coord/launcher_words.hpp"
#include "coord/parameters.hpp"
#include "coord/place.hpp"
#include "coord/snapshot.hpp"
#include "look/proc.hpp"
#include "survey/programs.hpp"

#include <algorithm>
#include <charconv>
#include <climits>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::survey {

namespace {

using coord::Job;
using coord::Variables;
using nlohmann::json;

constexpr std::chrono::milliseconds patience{1000}; // for an answer: others are to be shown, too
constexpr const char *reference_of_keeper = "context.ckpt";

// The launcher's pid, with which the name of a job begins; 0: it is no such name.
pid_t launcher_in(const std::string &name)
{
    pid_t pid = 0;
    const char *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, pid);
    return error == std::errc() && stop != end && *stop == '-' ? pid : 0;
}

// Launchers of jobs that their ranks have made: nothing in the launcher's environment tells.
void add_from(const std::string &runtime, std::set<pid_t> &launchers)
{
    const Result<Directory> directory = Directory::open(runtime);
    const Result<std::vector<std::string>> names =
        directory ? directory->names() : Result<std::vector<std::string>>(directory.error());
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        if (const pid_t pid = launcher_in(name); pid > 0)
            launchers.insert(pid);
    }
}

// Processes with a job's variables, by the launcher.
std::map<pid_t, std::vector<pid_t>> members_of_jobs()
{
    std::map<pid_t, std::vector<pid_t>> all;
    for (const pid_t pid : own_processes()) {
        const Result<Variables> variables = coord::variables_of(pid);
        if (!variables)
            continue;
        const auto job = variables->find(coord::job_variable);
        if (job == variables->end())
            continue;
        if (const pid_t launcher = launcher_in(job->second); launcher > 0)
            all[launcher].push_back(pid);
    }
    return all;
}

// A directory of snapshots, and the last one in it.
struct Last {
    std::string path;
    coord::Snapshot snapshot;
    int64_t when = 0;
};

std::optional<Last> last_in(const std::string &path)
{
    const Result<coord::SnapshotStore> store = coord::SnapshotStore::open(path);
    const coord::Snapshot *latest = store ? store->latest() : nullptr;
    if (latest == nullptr)
        return {};
    Last last = {path, *latest};
    const Result<std::optional<struct stat>> status =
        store->directory().look(std::to_string(latest->seq));
    if (status && *status)
        last.when = (*status)->st_mtim.tv_sec * int64_t(1'000'000'000) + (*status)->st_mtim.tv_nsec;
    return last;
}

void look_at_snapshots(Running &one, const std::string &id, const Variables &variables)
{
    std::optional<Last> last;
    if (!one.said.directory.empty())
        last = last_in(one.said.directory + "/" + reference_of_keeper);
    if (!last) {
        const coord::Parameters parameters = coord::parameters_of(variables);
        const std::string base =
            parameters.directory.empty() ? coord::default_base(variables) : parameters.directory;
        last = last_in(base + "/" + coord::default_reference(one.said.program));
        if (last && last->snapshot.job != id) // of an earlier job whose launcher had this number
            last.reset();
        if (one.said.directory.empty())
            one.said.directory = base;
    }
    if (!last)
        return;
    one.said.checkpoint = fmt::format("{}/{}", last->path, last->snapshot.seq);
    one.said.checkpoint_ns = last->when;
    one.bytes = last->snapshot.bytes();
    one.level = !last->snapshot.redundancy.empty()  ? last->snapshot.redundancy
                : last->snapshot.local_images() > 0 ? "local"
                                                    : "";
}

// What the job's first daemon says of its ranks.
void ask(Running &one)
{
    Result<coord::Client> client = coord::Client::to(one.said.program);
    if (!client) {
        one.obstacle = client.error().text();
        return;
    }
    client->limit_to(patience);
    const Result<void> sent = client->send({{"type", "status"}});
    const Result<json> answer = sent ? client->next() : Result<json>(sent.error());
    if (!answer) {
        one.obstacle = answer.error().text();
        return;
    }
    one.processes = answer->value("ranks", json::array()).size();
    one.obstacle = answer->value("ready", false) ? "" : answer->value("why", "");
}

std::string command_of(pid_t launcher)
{
    const Result<std::string> words = capture::Proc(launcher).read("cmdline");
    return fmt::format(
        "{}", fmt::join(coord::without_exports(cli::split_strings(words ? *words : "")), " "));
}

} // namespace

std::vector<Running> look_at_jobs(const std::vector<Running> &known, std::vector<pid_t> &ranks)
{
    std::vector<Running> all;
    const std::map<pid_t, std::vector<pid_t>> members = members_of_jobs();
    std::set<pid_t> launchers;
    for (const auto &[launcher, processes] : members) {
        launchers.insert(launcher);
        ranks.insert(ranks.end(), processes.begin(), processes.end());
    }
    char runtime[PATH_MAX];
    if (coord::runtime_directory(environ, runtime, sizeof(runtime)))
        add_from(runtime, launchers);
    for (const pid_t launcher : launchers) {
        const uint64_t began = recover::started(launcher);
        const Result<Job> job = began != 0 ? coord::job_of(launcher) : Error(ESRCH, "it is gone");
        const Result<Variables> variables =
            job ? coord::variables_of(launcher) : Result<Variables>(job.error());
        struct stat status = {};
        if (!variables || job->launcher != launcher ||
            stat(capture::Proc(launcher).path("").c_str(), &status) != 0)
            continue;
        Running one;
        const auto kept = std::ranges::find_if(known, [&](const Running &other) {
            return other.said.program == launcher && other.obstacle;
        });
        if (kept != known.end())
            one = *kept;
        else
            one.said = recover::from_here();
        one.job = true;
        one.owner = status.st_uid;
        one.said.program = one.said.own_pid = launcher;
        one.said.program_started = began;
        one.said.command = command_of(launcher);
        ask(one);
        if (kept == known.end())
            one.state = one.obstacle->empty() ? "ready" : "unready";
        if (one.owner == geteuid()) // as for images of programs
            look_at_snapshots(one, job->id, *variables);
        all.push_back(std::move(one));
    }
    return all;
}

} // namespace cryo::survey
