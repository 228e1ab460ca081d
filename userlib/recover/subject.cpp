// SPDX-License-Identifier: Apache-2.0
#include "recover/subject.hpp"

#include "cli/place.hpp"
#include "coord/launch.hpp"
#include "coord/place.hpp"
#include "coord/snapshot.hpp"
#include "keeper/series.hpp"
#include "recover/decision.hpp"
#include "recover/images.hpp"
#include "recover/snapshots.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::recover {

namespace {

Checkpoint checkpoint_at(const std::string &path)
{
    struct stat status = {};
    if (lstat(path.c_str(), &status) != 0)
        return {};
    constexpr int64_t second = 1'000'000'000;
    return {.path = path, .made_ns = status.st_mtim.tv_sec * second + status.st_mtim.tv_nsec};
}

template <class Kind>
Result<std::unique_ptr<Past>> as_past(Result<Kind> past)
{
    if (!past)
        return past.error();
    return Result<std::unique_ptr<Past>>(std::make_unique<Kind>(std::move(*past)));
}

std::vector<std::string> with_keeping(std::vector<std::string> words,
                                      const keeper::Settings &keeping)
{
    const std::vector<std::string> more = keeper::words_of(keeping);
    words.insert(words.end(), more.begin(), more.end());
    return words;
}

// Of a rank on this node: its image, which opal-restart takes from the node's own directory if it
// is there, and those that it is based on.
void add_files(std::vector<std::string> &files, const coord::SnapshotStore &store,
               const coord::Snapshot &snapshot, const coord::SnapshotImage &image)
{
    const std::string near = image.local + "/" + image.file;
    struct stat status = {};
    const bool is_near = !image.local.empty() && lstat(near.c_str(), &status) == 0 &&
                         static_cast<uint64_t>(status.st_size) == image.bytes;
    files.push_back(is_near ? near : store.image_path(snapshot, image));
    for (const int seq : image.needs) {
        const coord::Snapshot *base = store.find(seq);
        const coord::SnapshotImage *needed = base != nullptr ? base->image_of(image.rank) : nullptr;
        if (needed != nullptr)
            files.push_back(store.image_path(*base, *needed));
    }
}

class Program final : public Subject
{
  public:
    using Subject::Subject;

    Result<std::unique_ptr<Past>> past(int patience_ms) const override
    {
        return as_past(Images::take(keeping().directory, patience_ms));
    }
    std::string path_of(const std::string &name) const override
    {
        return keeping().directory + "/" + name;
    }
    Checkpoint newest() const override
    {
        const Result<std::string> name = keeper::Series(keeping().directory).newest();
        return name && !name->empty() ? checkpoint_at(path_of(*name)) : Checkpoint();
    }
    Result<Reads> reads(const std::string &name) const override
    {
        const Result<std::vector<std::string>> names =
            keeper::Series(keeping().directory).needed(name);
        if (!names)
            return names.error();
        Reads reads;
        for (const std::string &one : *names)
            reads.files.push_back(path_of(one));
        return reads;
    }
    Result<std::vector<std::string>> hosts_for(const std::string & /*name*/,
                                               Nodes & /*nodes*/) const override
    {
        return std::vector<std::string>();
    }
    std::vector<std::string> restart_words(const std::string &name, int report,
                                           const std::vector<std::string> &more) const override
    {
        std::vector<std::string> words = with_keeping(
            {cli::command("cr_restart"), "-q", "--supervisor", std::to_string(report)}, keeping());
        words.insert(words.end(), more.begin(), more.end());
        words.push_back(path_of(name));
        return words;
    }
    int end_of(int wait_status) const override { return wait_status; }
    std::string end_text(pid_t pid, int wait_status) const override
    {
        return fmt::format("process {} {}", pid, recover::end_text(wait_status));
    }
    bool may_pass(int wait_status) const override { return recover::may_pass(wait_status); }
    bool has_daemon() const override { return false; }
    bool lost_control(int /*wait_status*/) const override { return false; }
    bool may_be_chosen(int wait_status) const override { return WIFEXITED(wait_status); }
};

class Job final : public Subject
{
  public:
    Job(keeper::Settings keeping, const std::string &launcher, std::string series)
        : Subject(std::move(keeping)), launcher_(launcher), is_hydra_(coord::is_hydra(launcher)),
          series_(std::move(series))
    {}

    Result<std::unique_ptr<Past>> past(int patience_ms) const override
    {
        return as_past(Snapshots::take(keeping().directory, series_, patience_ms));
    }
    std::string path_of(const std::string &name) const override
    {
        return fmt::format("{}/{}", store(), name);
    }
    Checkpoint newest() const override
    {
        const Result<coord::SnapshotStore> found = coord::SnapshotStore::open(store());
        const coord::Snapshot *latest = nullptr;
        if (found) {
            for (const auto &[seq, snapshot] : found->snapshots()) {
                if (snapshot.finished && snapshot.series == series_)
                    latest = &snapshot;
            }
        }
        return latest != nullptr ? checkpoint_at(path_of(std::to_string(latest->seq)))
                                 : Checkpoint();
    }
    Result<Reads> reads(const std::string &name) const override
    {
        const Result<coord::SnapshotStore> found = coord::SnapshotStore::open(store());
        if (!found)
            return found.error();
        const coord::Snapshot *snapshot = found->find(std::stoi(name));
        if (snapshot == nullptr)
            return Error(ENOENT, path_of(name) + ": is no finished snapshot any more");
        char here[HOST_NAME_MAX + 1] = {};
        coord::node_name(environ, here, sizeof(here));
        Reads reads;
        for (const coord::SnapshotImage &image : snapshot->images) {
            if (image.node == here)
                add_files(reads.files, *found, *snapshot, image);
            else
                reads.other_nodes.insert(image.node);
        }
        return reads;
    }
    std::vector<std::string> restart_words(const std::string &name, int report,
                                           const std::vector<std::string> &more) const override
    {
        std::vector<std::string> words =
            with_keeping({cli::command("ompi-restart"), "--seq", name, "--supervisor",
                          std::to_string(report), "--series", series_},
                         keeping());
        words.insert(words.end(), more.begin(), more.end());
        words.push_back(store());
        return words;
    }
    // A launcher ends with the status of the rank that has failed. For one that was killed by a
    // signal, Open MPI's and Slurm's add 128 to its number, as shells do; MPICH's does not.
    int end_of(int wait_status) const override
    {
        constexpr int of_shell = 128;
        if (!WIFEXITED(wait_status))
            return wait_status;
        const int signal = WEXITSTATUS(wait_status) - (is_hydra_ ? 0 : of_shell);
        return signal > 0 && signal < SIGRTMIN ? signal : wait_status;
    }
    std::string end_text(pid_t pid, int wait_status) const override
    {
        const std::string of_launcher =
            fmt::format("the launcher ({}) {}", pid, recover::end_text(wait_status));
        const int of_rank = end_of(wait_status);
        return of_rank == wait_status
                   ? of_launcher
                   : fmt::format("{}: a rank {}", of_launcher, recover::end_text(of_rank));
    }
    // The launcher ends as the rank's cr_restart has, with the errno of its error; or for a reason
    // of its own, before any image was read: it was not found, had too few slots, or did not reach
    // a node. Then it ends with 1, with Open MPI's negative codes, or with ssh's 255.
    bool may_pass(int wait_status) const override
    {
        constexpr int of_shell[] = {126, 127}; // "cannot be executed", "not found"
        constexpr int first_negative = 128 + 64;
        if (!WIFEXITED(wait_status))
            return false;
        const int status = WEXITSTATUS(wait_status);
        return recover::may_pass(wait_status) || status == 1 || status >= first_negative ||
               std::ranges::find(of_shell, status) != std::end(of_shell);
    }
    bool has_daemon() const override { return true; }
    // MPICH's so if its own processes miss each other, as it may when a rank of another node is
    // killed; Open MPI's if a node's orted is gone.
    bool lost_control(int wait_status) const override
    {
        constexpr int of_hydra = 255;
        constexpr int of_orte = 205; // 256 + ORTE_ERR_COMM_FAILURE
        return WIFEXITED(wait_status) &&
               WEXITSTATUS(wait_status) == (is_hydra_ ? of_hydra : of_orte);
    }
    // With MPICH's the numbers of signals, too: 15 is SIGTERM's, and what its library ends with
    // when it misses another rank.
    bool may_be_chosen(int wait_status) const override
    {
        return WIFEXITED(wait_status) && (is_hydra_ || WIFEXITED(end_of(wait_status)));
    }
    Result<std::vector<std::string>> hosts_for(const std::string &name, Nodes &nodes) const override
    {
        const Result<coord::SnapshotStore> found = coord::SnapshotStore::open(store());
        if (!found)
            return found.error();
        const coord::Snapshot *snapshot = found->find(std::stoi(name));
        if (snapshot == nullptr)
            return Error(ENOENT, path_of(name) + ": is no finished snapshot any more");
        // While no node is lost, nobody asks where each of many ranks was.
        return nodes.options(nodes.any_lost() ? found->with_ranks(*snapshot) : *snapshot,
                             launcher_);
    }

  private:
    std::string store() const { return keeping().directory + "/" + keeper::reference_name; }

    std::string launcher_;
    bool is_hydra_;
    std::string series_;
};

} // namespace

int64_t Subject::made_ns(const std::string &name) const
{
    return checkpoint_at(path_of(name)).made_ns;
}

std::unique_ptr<Subject> make_subject(keeper::Settings keeping,
                                      const std::vector<std::string> &words,
                                      const std::string &series)
{
    if (keeping.mpi)
        return std::make_unique<Job>(std::move(keeping), words.front(), series);
    return std::make_unique<Program>(std::move(keeping));
}

} // namespace cryo::recover
