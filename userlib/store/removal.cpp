// SPDX-License-Identifier: Apache-2.0
#include "store/removal.hpp"

#include "store/claim.hpp"
#include "store/manifest.hpp"

#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cryo::store {

namespace {

// What a place has.
struct There {
    bool is_committed = false;
    std::vector<PendingUpload> uploads = {};
    std::vector<StoredObject> objects = {};

    bool any() const { return is_committed || !uploads.empty() || !objects.empty(); }
};

// Objects of places below it are none of its own.
bool is_own(const std::string &key, const Location &files)
{
    return key.find('/', files.key.size()) == std::string::npos;
}

Result<There> look(Client &client, const Location &place)
{
    const Location files = place.within(files_name);
    const Result<std::optional<uint64_t>> committed = client.size(place.within(manifest_name));
    if (!committed)
        return committed.error();
    Result<std::vector<PendingUpload>> uploads = client.uploads(files);
    if (!uploads)
        return uploads.error();
    Result<std::vector<StoredObject>> objects = client.list(files);
    if (!objects)
        return objects.error();
    std::erase_if(*uploads, [&](const auto &one) { return !is_own(one.key, files); });
    std::erase_if(*objects, [&](const auto &one) { return !is_own(one.key, files); });
    return There{.is_committed = committed->has_value(),
                 .uploads = std::move(*uploads),
                 .objects = std::move(*objects)};
}

// A push may have ended since the first look, and committed what was there then: so this looks
// again, when the place is taken. The manifest goes first: from then on there is nothing that a
// restart would take for complete.
Result<Removed> remove_all(Client &client, const Location &place)
{
    const Result<There> there = look(client, place);
    if (!there)
        return there.error();
    Result<void> done =
        there->is_committed ? client.remove(place.within(manifest_name)) : Result<void>();
    for (const PendingUpload &upload : there->uploads) {
        if (done)
            done = client.abort_upload({place.bucket, upload.key}, upload.id);
    }
    Removed removed;
    for (const StoredObject &object : there->objects) {
        if (done)
            done = client.remove({place.bucket, object.key});
        removed.objects++;
        removed.bytes += object.bytes;
    }
    if (!done)
        return done.error();
    return removed;
}

} // namespace

Result<Removed> remove_place(const Location &place, const Settings &settings, const Terms &terms)
{
    Client client(settings, terms);
    const Result<There> there = look(client, place);
    if (!there)
        return there.error();
    const Result<std::optional<uint64_t>> claimed = client.size(place.within(claim_name));
    if (!claimed)
        return claimed.error();
    if (!there->any() && !*claimed)
        return Error(ENOENT, place.text() + ": there is no image");
    const Result<std::unique_ptr<Claim>> claim = Claim::take(settings, place, terms);
    if (!claim)
        return claim.error();
    return remove_all(client, place);
}

} // namespace cryo::store
