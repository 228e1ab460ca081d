// SPDX-License-Identifier: Apache-2.0
#include "coord/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

constexpr const char *metadata_name = "global_snapshot_meta.data";
constexpr const char *local_metadata_name = "snapshot_meta.data";
constexpr const char *component = "cryo";

std::string now_text()
{
    return fmt::format("{:%a %b %e %H:%M:%S %Y}", fmt::localtime(time(nullptr)));
}

template <class T>
T number(std::string_view text)
{
    T value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

Result<void> sync_directory(const std::string &path)
{
    const Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd || fsync(fd.get()) != 0)
        return Error::from_errno(path, errno);
    return {};
}

// Whole and on the disk, or not there: under another name first.
Result<void> write_file(const std::string &directory, const std::string &name,
                        const std::string &contents)
{
    const std::string path = directory + "/" + name;
    const std::string fresh = fmt::format("{}/.{}.tmp", directory, name);
    Fd fd(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd)
        return Error::from_errno(fresh, errno);
    for (size_t at = 0; at < contents.size();) {
        const ssize_t n = write(fd.get(), contents.data() + at, contents.size() - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            const int error = errno;
            unlink(fresh.c_str());
            return Error::from_errno(fresh, error);
        }
        at += static_cast<size_t>(n);
    }
    if (fsync(fd.get()) != 0 || rename(fresh.c_str(), path.c_str()) != 0) {
        const int error = errno;
        unlink(fresh.c_str());
        return Error::from_errno(path, error);
    }
    return sync_directory(directory);
}

// A snapshot's own number, or −1 where a name is none.
int seq_of(const std::string &name)
{
    int seq = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), seq);
    return error == std::errc() && end == name.data() + name.size() ? seq : -1;
}

// "# Key: value": false when a line is none.
bool split_line(const std::string &line, std::string &key, std::string &value)
{
    const size_t colon = line.find(": ");
    if (line.compare(0, 2, "# ") != 0 || colon == std::string::npos)
        return false;
    key = line.substr(2, colon - 2);
    value = line.substr(colon + 2);
    return true;
}

void read_line(const std::string &key, const std::string &value, std::map<int, Snapshot> &all,
               Snapshot *&current)
{
    if (key == "Seq") {
        const int seq = seq_of(value);
        current = seq < 0 ? nullptr : &all[seq];
        if (current != nullptr)
            *current = Snapshot{.seq = seq};
        return;
    }
    if (current == nullptr)
        return;
    const bool has_image = !current->images.empty();
    if (key == "Process")
        current->images.push_back(
            {.rank = number<uint32_t>(std::string_view(value).substr(value.find('.') + 1))});
    else if (key == "Finished Seq")
        current->finished = seq_of(value) == current->seq;
    else if (key == "Timestamp")
        (current->started.empty() ? current->started : current->completed) = value;
    else if (key == "Cryo Job")
        current->job = value;
    else if (key == "Cryo Launcher")
        current->launcher = number<int>(value);
    else if (key == "Cryo Directory")
        current->directory = value;
    else if (key == "Cryo Command") {
        const auto words = nlohmann::json::parse(value, nullptr, false);
        if (words.is_array())
            current->command = words.get<std::vector<std::string>>();
    } else if (key == "Cryo PID" && has_image)
        current->images.back().pid = number<int>(value);
    else if (key == "Cryo Node" && has_image)
        current->images.back().node = value;
    else if (key == "Cryo Context" && has_image)
        current->images.back().file = value;
    else if (key == "Cryo Bytes" && has_image)
        current->images.back().bytes = number<uint64_t>(value);
}

std::string block(const Snapshot &s)
{
    std::string text = fmt::format("#\n# Seq: {}\n# AMCA: \n", s.seq);
    text += "# Local Snapshot Format Reference: opal_snapshot_%d.ckpt\n";
    text += fmt::format("# Timestamp: {}\n", s.started);
    text += fmt::format("# Cryo Job: {}\n# Cryo Launcher: {}\n# Cryo Directory: {}\n", s.job,
                        s.launcher, s.directory);
    text += fmt::format(
        "# Cryo Command: {}\n",
        nlohmann::json(s.command).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace));
    for (const SnapshotImage &image : s.images) {
        text += fmt::format("# Process: {}.{}\n# OPAL CRS Component: {}\n", s.launcher, image.rank,
                            component);
        text += fmt::format("# Cryo PID: {}\n# Cryo Node: {}\n# Cryo Context: {}\n"
                            "# Cryo Bytes: {}\n",
                            image.pid, image.node, image.file, image.bytes);
    }
    text += fmt::format("# Timestamp: {}\n", s.completed);
    if (s.finished)
        text += fmt::format("# Finished Seq: {}\n", s.seq);
    return text;
}

std::string local_metadata(const SnapshotImage &image)
{
    return fmt::format("#\n# PID: {}\n# OPAL CRS Component: {}\n# CONTEXT: {}\n# Cryo Bytes: {}\n",
                       image.pid, component, image.file, image.bytes);
}

} // namespace

uint64_t Snapshot::bytes() const
{
    uint64_t total = 0;
    for (const SnapshotImage &image : images)
        total += image.bytes;
    return total;
}

Result<void> write_local_metadata(const std::string &directory, const SnapshotImage &image)
{
    return write_file(directory, local_metadata_name, local_metadata(image));
}

std::string default_reference(int launcher)
{
    return fmt::format("ompi_global_snapshot_{}.ckpt", launcher);
}

std::string rank_directory(uint32_t rank)
{
    return fmt::format("opal_snapshot_{}.ckpt", rank);
}

std::string image_name(int pid)
{
    return fmt::format("cryo_context.{}", pid);
}

std::string default_base()
{
    for (const char *name :
         {"OMPI_MCA_hook_cryo_directory", "OMPI_MCA_snapc_base_global_snapshot_dir", "HOME"}) {
        if (const char *value = getenv(name); value != nullptr && *value == '/')
            return value;
    }
    const passwd *who = getpwuid(getuid());
    return who != nullptr ? who->pw_dir : "/";
}

Result<SnapshotStore> SnapshotStore::open(const std::string &path)
{
    SnapshotStore store;
    store.path_ = path;
    const std::string file = path + "/" + metadata_name;
    std::ifstream in(file);
    if (!in)
        return Error(ENOENT, fmt::format("{}: {}; it is no global snapshot, or none was finished",
                                         file, strerror(errno)));
    Snapshot *current = nullptr;
    std::string key;
    std::string value;
    for (std::string line; std::getline(in, line);) {
        if (split_line(line, key, value))
            read_line(key, value, store.snapshots_, current);
    }
    return store;
}

const Snapshot *SnapshotStore::latest() const
{
    for (auto at = snapshots_.rbegin(); at != snapshots_.rend(); ++at) {
        if (at->second.finished)
            return &at->second;
    }
    return nullptr;
}

const Snapshot *SnapshotStore::find(int seq) const
{
    const auto at = snapshots_.find(seq);
    return at != snapshots_.end() && at->second.finished ? &at->second : nullptr;
}

std::string SnapshotStore::image_path(const Snapshot &snapshot, const SnapshotImage &image) const
{
    return fmt::format("{}/{}/{}/{}", path_, snapshot.seq, rank_directory(image.rank), image.file);
}

Result<void> SnapshotStore::check(const Snapshot &snapshot) const
{
    for (const SnapshotImage &image : snapshot.images) {
        const std::string path = image_path(snapshot, image);
        struct stat status = {};
        if (stat(path.c_str(), &status) != 0)
            return Error::from_errno(path, errno)
                .within(fmt::format("the image of rank {}", image.rank));
        if (static_cast<uint64_t>(status.st_size) != image.bytes)
            return Error(EINVAL, fmt::format("{}: has {} bytes, and had {} when it was made; take "
                                             "another snapshot (--seq)",
                                             path, status.st_size, image.bytes));
    }
    return {};
}

std::string SnapshotStore::metadata() const
{
    std::string text;
    for (const auto &[seq, snapshot] : snapshots_)
        text += block(snapshot);
    return text;
}

Result<SnapshotWriter> SnapshotWriter::begin(const std::string &base, const std::string &reference,
                                             Snapshot about)
{
    SnapshotWriter writer;
    writer.committed_ = true; // there is nothing to remove yet
    const std::string path = base + "/" + reference;
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
        return Error::from_errno(path, errno);
    writer.lock_ = Fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!writer.lock_)
        return Error::from_errno(path, errno);
    if (flock(writer.lock_.get(), LOCK_EX | LOCK_NB) != 0)
        return Error(errno, fmt::format("{}: {}; another checkpoint is being written there", path,
                                        strerror(errno)));
    if (Result<SnapshotStore> present = SnapshotStore::open(path); present)
        writer.store_ = std::move(*present);
    writer.store_.path_ = path;
    // Nobody else writes here: what is half made is of one who died. Numbers are not used twice.
    int last = writer.store_.snapshots_.empty() ? -1 : writer.store_.snapshots_.rbegin()->first;
    std::error_code failed;
    for (const auto &entry : fs::directory_iterator(path, failed)) {
        const std::string name = entry.path().filename();
        std::error_code ignored;
        last = std::max(last, seq_of(name));
        const bool left = name.front() == '.' && name.ends_with(".tmp");
        if (left || (seq_of(name) >= 0 && writer.store_.find(seq_of(name)) == nullptr))
            fs::remove_all(entry.path(), ignored);
    }
    about.seq = last + 1;
    about.started = now_text();
    writer.about_ = std::move(about);
    if (mkdir(writer.directory().c_str(), 0700) != 0)
        return Error::from_errno(writer.directory(), errno);
    writer.committed_ = false;
    return writer;
}

SnapshotWriter::~SnapshotWriter()
{
    std::error_code ignored;
    if (!committed_ && lock_)
        fs::remove_all(directory(), ignored);
}

std::string SnapshotWriter::directory() const
{
    return fmt::format("{}/.{}.tmp", store_.path_, about_.seq);
}

Result<void> SnapshotWriter::put_token(const std::string &contents) const
{
    return write_file(directory(), "token", contents);
}

Result<void> SnapshotWriter::write_metadata() const
{
    return write_file(store_.path_, metadata_name, store_.metadata());
}

Result<void> SnapshotWriter::commit(std::vector<SnapshotImage> images)
{
    std::sort(images.begin(), images.end(),
              [](const SnapshotImage &a, const SnapshotImage &b) { return a.rank < b.rank; });
    for (const SnapshotImage &image : images) {
        const std::string path = directory() + "/" + rank_directory(image.rank);
        struct stat status = {};
        const std::string file = path + "/" + image.file;
        if (stat(file.c_str(), &status) != 0)
            return Error::from_errno(file, errno);
        if (static_cast<uint64_t>(status.st_size) != image.bytes)
            return Error(EIO, fmt::format("{}: has {} bytes, not the {} that were written", file,
                                          status.st_size, image.bytes));
        if (Result<void> done = write_local_metadata(path, image); !done)
            return done;
    }
    unlink((directory() + "/token").c_str());
    if (Result<void> done = sync_directory(directory()); !done)
        return done;
    const std::string final_name = fmt::format("{}/{}", store_.path_, about_.seq);
    if (rename(directory().c_str(), final_name.c_str()) != 0)
        return Error::from_errno(final_name, errno);
    about_.images = std::move(images);
    about_.completed = now_text();
    about_.finished = true;
    store_.snapshots_[about_.seq] = about_;
    Result<void> done = sync_directory(store_.path_);
    if (done)
        done = write_metadata();
    if (!done) { // it is none, and will not be taken for one
        store_.snapshots_.erase(about_.seq);
        std::error_code ignored;
        fs::remove_all(final_name, ignored);
        return done;
    }
    committed_ = true;
    return {};
}

Result<void> SnapshotWriter::keep(unsigned count)
{
    std::vector<int> mine;
    for (const auto &[seq, snapshot] : store_.snapshots_) {
        if (snapshot.finished && snapshot.job == about_.job)
            mine.push_back(seq);
    }
    if (mine.size() <= count)
        return {};
    mine.resize(mine.size() - count);
    for (const int seq : mine)
        store_.snapshots_.erase(seq);
    // First they are no snapshots any more, then they go.
    if (Result<void> done = write_metadata(); !done)
        return done;
    for (const int seq : mine) {
        std::error_code error;
        fs::remove_all(fmt::format("{}/{}", store_.path_, seq), error);
        if (error)
            return Error(error.value(),
                         fmt::format("{}/{}: {}", store_.path_, seq, error.message()));
    }
    return {};
}

} // namespace cryo::coord
