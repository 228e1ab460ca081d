// SPDX-License-Identifier: Apache-2.0
#include "server/job.hpp"

#include "base/sync.hpp"
#include "store/fresh_directory.hpp"
#include "store/measured.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::server {

namespace {

using store::Manifest;
using store::Measured;
using store::StoredFile;

constexpr size_t checksum_digits = 32;

std::string name_of(const StoredFile &file)
{
    return fmt::format("{}-{}", file.checksum, file.bytes);
}

// Whether it is the name of a file's contents.
bool names_contents(std::string_view name)
{
    const size_t minus = name.find('-');
    return minus == checksum_digits && minus + 1 < name.size() &&
           name.substr(0, minus).find_first_not_of("0123456789abcdef") == std::string_view::npos &&
           name.substr(minus + 1).find_first_not_of("0123456789") == std::string_view::npos;
}

ImageName manifest_in(const std::string &series)
{
    return {series, std::string(store::manifest_name)};
}

// The progress of several files as one.
class Sum
{
  public:
    Sum(const Progress &tell, uint64_t total) : tell_(tell), total_(total) {}

    Progress of_next() const
    {
        return [this](uint64_t done, uint64_t) { tell(done_ + done); };
    }
    void add(uint64_t bytes)
    {
        done_ += bytes;
        tell(done_);
    }

  private:
    void tell(uint64_t done) const
    {
        if (tell_)
            tell_(std::min(done, total_), total_);
    }

    const Progress &tell_;
    uint64_t total_;
    uint64_t done_ = 0;
};

class JobPush
{
  public:
    JobPush(const std::string &series, const store::Contents &contents, const JobSending &how)
        : series_(series), contents_(contents), how_(how)
    {
        made_.manifest.kind = contents.kind;
        made_.manifest.name = contents.name;
        made_.manifest.root = contents.root;
    }

    Result<JobAtServer> run(const Connect &connect);

  private:
    Result<void> look(Client &client);
    Result<void> measure();
    Result<void> put(Client &client, size_t index, Sum &sum);
    Result<void> check_alone(Client &client);
    Result<void> commit(Client &client);
    void remove_former(Client &client);

    const std::string &series_;
    const store::Contents &contents_;
    const JobSending &how_;
    JobAtServer made_;
    std::vector<Measured> measured_;
    std::map<std::string, StoredImage> there_;  // by their names
    std::map<std::string, StoredImage> former_; // when this push began
};

Result<void> JobPush::look(Client &client)
{
    const Result<Listing> listing = client.list(series_);
    if (!listing)
        return listing.error();
    there_.clear();
    for (const StoredImage &one : listing->images) {
        const std::string &name = one.image.name;
        if (name != store::manifest_name && !names_contents(name))
            return Error(EEXIST, fmt::format("{}: has images of single programs, as {}; name "
                                             "another series",
                                             series_, name));
        there_.emplace(name, one);
    }
    return {};
}

Result<void> JobPush::measure()
{
    for (const store::Content &content : contents_.files) {
        Result<Measured> measured = Measured::of(content);
        if (!measured)
            return measured.error();
        made_.manifest.files.push_back(measured->file());
        measured_.push_back(std::move(*measured));
    }
    return {};
}

Result<void> JobPush::put(Client &client, size_t index, Sum &sum)
{
    const StoredFile &file = measured_[index].file();
    const std::string name = name_of(file);
    const auto known = there_.find(name);
    if (known != there_.end() && known->second.bytes == file.bytes &&
        known->second.checksum == file.checksum) {
        sum.add(file.bytes);
        return {};
    }
    const Result<Fd> opened = contents_.files[index].open();
    if (!opened)
        return opened.error();
    const Result<StoredImage> kept =
        client.put({series_, name}, opened->get(),
                   {.existing = Existing::replace, .rate = how_.rate, .progress = sum.of_next()});
    if (!kept)
        return kept.error();
    Result<void> same = measured_[index].check_unchanged(opened->get());
    if (same && (kept->bytes != file.bytes || kept->checksum != file.checksum))
        same = Error(EAGAIN, file.name + ": was changed while it was sent");
    if (!same) {
        // What is there has the name of other contents; the next push removes it if this one
        // cannot.
        static_cast<void>(client.remove(kept->image, kept->checksum));
        return same;
    }
    there_[name] = *kept;
    made_.sent += file.bytes;
    sum.add(file.bytes);
    return {};
}

// Another push that has committed meanwhile may have removed what this one has found there.
Result<void> JobPush::check_alone(Client &client)
{
    const auto manifest_now = [this] {
        const auto at = there_.find(std::string(store::manifest_name));
        return at != there_.end() ? at->second.number : 0;
    };
    const uint64_t before = manifest_now();
    if (Result<void> looked = look(client); !looked)
        return looked;
    const auto is_there = [this](const Measured &one) {
        const auto at = there_.find(name_of(one.file()));
        return at != there_.end() && at->second.bytes == one.file().bytes &&
               at->second.checksum == one.file().checksum;
    };
    if (manifest_now() == before && std::ranges::all_of(measured_, is_there))
        return {};
    return Error(EBUSY, series_ + ": another push to it has come between, whose snapshots stay "
                                  "there; send these again when that one has ended");
}

Result<void> JobPush::commit(Client &client)
{
    const Result<std::string> text = made_.manifest.text_of_push(series_);
    if (!text)
        return text.error();
    const Result<Fd> file = store::file_of_text(*text);
    if (!file)
        return file.error();
    const Result<StoredImage> kept =
        client.put(manifest_in(series_), file->get(), {.existing = Existing::replace});
    return kept ? Result<void>() : Result<void>(kept.error());
}

// What is there and not named any more. What has come since is another push's, which is under way
// and may still need it: the next one removes it. The snapshots are complete whatever happens here.
void JobPush::remove_former(Client &client)
{
    std::set<std::string> used = {std::string(store::manifest_name)};
    for (const StoredFile &file : made_.manifest.files)
        used.insert(name_of(file));
    for (const auto &[name, image] : there_) {
        const auto former = former_.find(name);
        if (used.contains(name) || former == former_.end() || former->second.number != image.number)
            continue;
        if (const Result<void> removed = client.remove(image.image, image.checksum); !removed) {
            made_.notices.push_back("what was there before was not removed: " +
                                    removed.error().text());
            return;
        }
    }
}

Result<JobAtServer> JobPush::run(const Connect &connect)
{
    {
        Result<Client> client = connect();
        // Whether the series may be used, before all is read.
        if (const Result<void> good = client ? look(*client) : client.error(); !good)
            return good.error();
        former_ = there_;
    }
    if (const Result<void> measured = measure(); !measured)
        return measured.error();
    Result<Client> client = connect();
    Result<void> done = client ? look(*client) : client.error();
    Sum sum(how_.progress, made_.manifest.bytes());
    for (size_t i = 0; done && i < measured_.size(); i++)
        done = put(*client, i, sum);
    if (done)
        done = check_alone(*client);
    if (done)
        done = commit(*client);
    if (!done)
        return done.error();
    remove_former(*client);
    return std::move(made_);
}

Result<Manifest> manifest_of(Client &client, const std::string &series)
{
    const Fd file(memfd_create("cryo", MFD_CLOEXEC));
    if (!file)
        return Error::from_errno("memfd_create", errno);
    const Result<StoredImage> there = client.find(manifest_in(series));
    if (!there)
        return there.error();
    if (there->bytes > store::largest_manifest)
        return Error(EFBIG, series + ": names too many files");
    const Result<StoredImage> got = client.get(manifest_in(series), file.get(), {});
    if (!got)
        return got.error();
    std::string text(got->bytes, '\0');
    if (pread(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
        return Error::from_errno("reading from memory", EIO);
    return Manifest::parse(text);
}

} // namespace

Result<JobAtServer> push_job(const Connect &connect, const std::string &series,
                             const store::Contents &contents, const JobSending &how)
{
    return JobPush(series, contents, how).run(connect);
}

Result<JobAtServer> pull_job(Client &client, const std::string &series,
                             const std::string &directory, const Progress &progress)
{
    Result<Manifest> manifest = manifest_of(client, series);
    if (!manifest && manifest.error().code() == ENOENT)
        return Error(ENOENT, series + ": the server has no snapshots of a job there");
    if (!manifest)
        return manifest.error().within(series);
    Result<store::FreshDirectory> fresh = store::FreshDirectory::make(directory, *manifest);
    if (!fresh)
        return fresh.error();
    Sum sum(progress, manifest->bytes());
    for (const StoredFile &file : manifest->files) {
        const Result<Fd> to = fresh->create(file);
        if (!to)
            return to.error();
        const Result<StoredImage> got =
            client.get({series, name_of(file)}, to->get(), sum.of_next());
        if (!got)
            return got.error().within(file.name);
        if (got->bytes != file.bytes || got->checksum != file.checksum)
            return Error(EBADMSG, file.name + ": is not what was saved (checksum)");
        sum.add(file.bytes);
    }
    for (const StoredFile &file : manifest->files) { // the server would not wait for each
        const std::string path = fresh->path_of(file);
        const Fd written(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
        if (const int error = written ? sync_file(written.get()) : errno)
            return Error::from_errno(path, error);
    }
    if (Result<void> named = fresh->take_name(); !named)
        return named.error();
    return JobAtServer{.manifest = std::move(*manifest)};
}

Result<bool> has_job(Client &client, const std::string &series)
{
    const Result<StoredImage> there = client.find(manifest_in(series));
    if (there)
        return true;
    return there.error().code() == ENOENT ? Result<bool>(false) : there.error();
}

} // namespace cryo::server
