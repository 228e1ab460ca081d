// SPDX-License-Identifier: Apache-2.0
#include "verbs.hpp"

#include "cli/text.hpp"
#include "store/claim.hpp"

#include <cerrno>

namespace cryo::storing {

using store::Client;
using store::Location;

namespace {

bool is_own(const std::string &key, const Location &files)
{
    return key.find('/', files.key.size()) == std::string::npos;
}

} // namespace

// The manifest first: from then on there is nothing that a restart would take for complete.
Result<void> remove(Options &options, const store::Settings &settings, const Location &place)
{
    Client client(settings, terms_of(options));
    const Location manifest = place.within(store::manifest_name);
    const Location files = place.within(store::files_name);
    const Result<std::optional<uint64_t>> committed = client.size(manifest);
    if (!committed)
        return committed.error();
    Result<std::vector<store::PendingUpload>> uploads = client.uploads(files);
    if (!uploads)
        return uploads.error();
    Result<std::vector<store::StoredObject>> objects = client.list(files);
    if (!objects)
        return objects.error();
    // Objects of places below it are none of its own.
    std::erase_if(*uploads, [&](const auto &one) { return !is_own(one.key, files); });
    std::erase_if(*objects, [&](const auto &one) { return !is_own(one.key, files); });
    const Result<std::optional<uint64_t>> claimed = client.size(place.within(store::claim_name));
    if (!claimed)
        return claimed.error();
    if (!*committed && uploads->empty() && objects->empty() && !*claimed)
        return Error(ENOENT, place.text() + ": there is no image");
    const Result<std::unique_ptr<store::Claim>> claim =
        store::Claim::take(settings, place, terms_of(options));
    if (!claim)
        return claim.error();
    Result<void> done = *committed ? client.remove(manifest) : Result<void>();
    for (const store::PendingUpload &upload : *uploads) {
        if (done)
            done = client.abort_upload({place.bucket, upload.key}, upload.id);
    }
    uint64_t bytes = 0;
    for (const store::StoredObject &object : *objects) {
        if (done)
            done = client.remove({place.bucket, object.key});
        bytes += object.bytes;
    }
    if (!done)
        return done;
    options.talk.result(fmt::format("{}: removed {}", place.text(), cli::size_text(bytes)),
                        {{"place", place.text()}, {"objects", objects->size()}, {"bytes", bytes}});
    return {};
}

} // namespace cryo::storing
