// SPDX-License-Identifier: Apache-2.0
#include "store/upload.hpp"

#include "store/parallel.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <map>
#include <memory>

namespace cryo::store {

namespace {

class PartedUpload
{
  public:
    PartedUpload(const UploadSource &source, const Location &to, const UploadOptions &options)
        : source_(source), to_(to), options_(options),
          size_(part_size_for(source.bytes, options.part_size)),
          parts_((source.bytes + size_ - 1) / size_)
    {
        for (unsigned i = 0; i < std::max(options.workers, 1U); i++)
            clients_.push_back(std::make_unique<Client>(options.settings, options.terms));
    }

    Result<UploadOutcome> run();

  private:
    Result<void> find_begun();
    Result<void> put(Client &client, size_t index);
    Result<void> complete();

    const UploadSource &source_;
    const Location &to_;
    const UploadOptions &options_;
    uint64_t size_;
    std::vector<StoredPart> parts_;
    std::vector<std::unique_ptr<Client>> clients_;
    std::string id_;
    std::map<unsigned, StoredPart> begun_; // by number
    std::atomic<uint64_t> sent_ = 0;
    std::atomic<uint64_t> kept_ = 0;
};

// Of several the one that has most parts.
Result<void> PartedUpload::find_begun()
{
    Client &client = *clients_.front();
    const Result<std::vector<PendingUpload>> pending = client.uploads(to_);
    if (!pending)
        return pending.error();
    for (const PendingUpload &one : *pending) {
        if (one.key != to_.key)
            continue;
        const Result<std::vector<StoredPart>> parts = client.parts(to_, one.id);
        if (!parts && parts.error().code() == ENOENT)
            continue; // it has ended meanwhile
        if (!parts)
            return parts.error();
        if (!id_.empty() && parts->size() <= begun_.size())
            continue;
        id_ = one.id;
        begun_.clear();
        for (const StoredPart &part : *parts)
            begun_[part.number] = part;
    }
    return {};
}

Result<void> PartedUpload::put(Client &client, size_t index)
{
    const FilePart part{source_.fd, index * size_, std::min(size_, source_.bytes - index * size_)};
    const Result<Digests> digests = digests_of(part.fd, source_.name, part.offset, part.length);
    if (!digests)
        return digests.error();
    const unsigned number = static_cast<unsigned>(index) + 1;
    const auto begun = begun_.find(number);
    if (begun != begun_.end() && begun->second.bytes == part.length &&
        begun->second.etag == digests->md5) {
        parts_[index] = begun->second;
        kept_ += part.length;
        if (options_.terms.moved)
            options_.terms.moved(part.length);
        return {};
    }
    Result<StoredPart> stored = client.put_part(to_, id_, number, part, *digests);
    if (!stored)
        return stored.error();
    parts_[index] = std::move(*stored);
    sent_ += part.length;
    return {};
}

Result<void> PartedUpload::complete()
{
    Client &client = *clients_.front();
    Result<void> done = client.complete_upload(to_, id_, parts_);
    // An answer that was lost: the upload is complete, and so no longer there.
    if (!done && done.error().code() != ENOENT)
        return done;
    const Result<std::optional<uint64_t>> size = client.size(to_);
    if (!size)
        return size.error();
    if (!*size)
        return done ? Error(EIO, to_.text() + ": the object store says that the object is "
                                              "complete, and does not have it")
                    : done;
    if (**size != source_.bytes)
        return Error(EBADMSG, fmt::format("{}: has {} bytes there in place of {}", to_.text(),
                                          **size, source_.bytes));
    return {};
}

Result<UploadOutcome> PartedUpload::run()
{
    if (Result<void> looked = find_begun(); !looked)
        return looked.error();
    if (id_.empty()) {
        Result<std::string> id = clients_.front()->begin_upload(to_);
        if (!id)
            return id.error();
        id_ = std::move(*id);
    }
    Result<void> done =
        parallel(parts_.size(), options_.workers, options_.ended,
                 [this](unsigned worker, size_t index) { return put(*clients_[worker], index); });
    if (!done)
        return done.error();
    if (options_.ended)
        return Error(ECANCELED, source_.name + ": another upload failed");
    if (done = source_.check(); !done)
        return done.error();
    if (done = complete(); !done)
        return done.error();
    return UploadOutcome{sent_, kept_};
}

} // namespace

uint64_t part_size_for(uint64_t bytes, uint64_t wanted)
{
    constexpr uint64_t step = 1 << 20;
    const uint64_t least = (bytes + most_parts - 1) / most_parts;
    return least <= wanted ? wanted : (least + step - 1) / step * step;
}

Result<UploadOutcome> upload(const UploadSource &source, const Location &to,
                             const UploadOptions &options)
{
    if (source.bytes > options.part_size)
        return PartedUpload(source, to, options).run();
    const Result<Digests> digests = digests_of(source.fd, source.name, 0, source.bytes);
    if (!digests)
        return digests.error();
    if (Result<void> good = source.check(); !good)
        return good.error();
    Client client(options.settings, options.terms);
    if (Result<void> put = client.put_file(to, {source.fd, 0, source.bytes}, *digests); !put)
        return put.error();
    return UploadOutcome{source.bytes, 0};
}

} // namespace cryo::store
