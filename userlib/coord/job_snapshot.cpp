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
    aside_ = std::make_unique<Aside>(
        loop_,
        [this, images = std::move(images), keep]() mutable {
            return write(std::move(images), keep);
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

// Runs in a thread of its own, which owns the writer and `kept_all_`.
Result<void> JobSnapshot::write(std::vector<SnapshotImage> images, unsigned keep)
{
    Result<void> done = writer_->commit(std::move(images));
    if (!done || keep == 0)
        return done;
    if (Result<void> kept = writer_->keep(keep); !kept)
        kept_all_ = fmt::format("older snapshots could not be removed: {}", kept.error().text());
    return done;
}

} // namespace cryo::coord
