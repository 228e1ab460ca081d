// SPDX-License-Identifier: Apache-2.0
#include "coord/job_snapshot.hpp"

#include "base/printable.hpp"
#include "coord/tls.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

std::vector<std::string> command_line(pid_t pid)
{
    std::ifstream in(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(in, word, '\0');)
        words.push_back(word);
    return words;
}

} // namespace

Result<std::string> JobSnapshot::begin(const Job &job, const json &request)
{
    Snapshot about;
    about.job = job.id;
    about.launcher = job.launcher;
    about.series = job.series;
    about.command = command_line(job.launcher);
    std::error_code ignored;
    about.directory =
        std::filesystem::read_symlink(fmt::format("/proc/{}/cwd", job.launcher), ignored);
    const std::string directory = request.at("directory");
    if (!is_utf8(directory)) // MPI_Ckpt's: daemons could not be told of it
        return Error(EILSEQ, directory + ": is not UTF-8; choose another directory");
    // A command makes it, but neither MPI_Ckpt() nor root of another user's job does.
    std::error_code made;
    std::filesystem::create_directories(directory, made); // else it cannot be written to, either
    Result<SnapshotWriter> writer = SnapshotWriter::begin(
        directory, request.value("reference", std::string()), std::move(about));
    if (!writer && made && writer.error().code() == ENOENT)
        return Error::from_errno(directory, made.value());
    if (!writer)
        return writer.error();
    writer_.emplace(std::move(*writer));
    std::string token = random_hex(16);
    if (Result<void> put = writer_->put_token(token); !put)
        return put.error();
    return token;
}

std::optional<int> JobSnapshot::previous() const
{
    const Snapshot *before = writer_->previous();
    return before != nullptr ? std::optional(before->seq) : std::nullopt;
}

bool JobSnapshot::has_image(int seq, uint32_t rank)
{
    return writer_->has_image(seq, rank);
}

void JobSnapshot::commit(std::vector<SnapshotImage> images, unsigned keep, Aside::Then then)
{
    write(
        [this, images = std::move(images)]() mutable { return writer_->commit(std::move(images)); },
        keep, std::move(then));
}

void JobSnapshot::commit_counted(uint32_t ranks, uint64_t bytes, unsigned keep, Aside::Then then)
{
    write([this, ranks, bytes] { return writer_->commit_counted(ranks, bytes); }, keep,
          std::move(then));
}

// The thread that does so owns the writer and `kept_all_` meanwhile.
void JobSnapshot::write(std::function<Result<void>()> commit, unsigned keep, Aside::Then then)
{
    aside_ = std::make_unique<Aside>(
        loop_,
        [this, commit = std::move(commit), keep] {
            Result<void> done = commit();
            return done ? this->keep(keep) : done;
        },
        [this, then = std::move(then)](const Result<void> &done) {
            aside_.reset();
            then(done);
        });
}

void JobSnapshot::add_sets(const std::string &redundancy, std::vector<SnapshotSet> sets,
                           Aside::Then then)
{
    aside_ = std::make_unique<Aside>(
        loop_,
        [this, redundancy, sets = std::move(sets)] { return writer_->add_sets(redundancy, sets); },
        [this, then = std::move(then)](const Result<void> &done) {
            aside_.reset();
            then(done);
        });
}

Result<void> JobSnapshot::keep(unsigned count)
{
    if (count == 0)
        return {};
    if (Result<void> kept = writer_->keep(count); !kept)
        kept_all_ = fmt::format("older snapshots could not be removed: {}", kept.error().text());
    return {};
}

} // namespace cryo::coord
