// SPDX-License-Identifier: Apache-2.0
#include "restore/saved.hpp"

#include <cerrno>

namespace cryo::restore {

namespace {

// Records that a restart does not need.
template <class R>
constexpr bool is_passed_over = false;
template <class R>
requires std::is_same_v<R, image::ImageInfo> || std::is_same_v<R, image::Notice> ||
    std::is_same_v<R, image::Object> || std::is_same_v<R, image::PageDigests> ||
    std::is_same_v<R, image::PageTracker>
constexpr bool is_passed_over<R> = true;

// Records that stand elsewhere than in the image of a process: one that does not say that readers
// may ignore it is refused.
template <class R>
constexpr bool is_misplaced = false;
template <class R>
requires std::is_same_v<R, image::Attachment> || std::is_same_v<R, image::Tree> ||
    std::is_same_v<R, image::Member> || std::is_same_v<R, image::Foreign> ||
    std::is_same_v<R, image::Delta> || std::is_same_v<R, image::DeltaService> ||
    std::is_same_v<R, image::DeltaVersion>
constexpr bool is_misplaced<R> = true;

template <class R>
void keep(Saved &saved, const R &record)
{
    saved.own.add(record);
}

void keep(Saved &saved, const image::Process &record)
{
    saved.process = record;
}

void keep(Saved &saved, const image::Memory &record)
{
    saved.memory = record;
}

void keep(Saved &saved, const image::Agent &record)
{
    saved.agent = record;
}

void keep(Saved &saved, const image::Cpu &record)
{
    saved.cpu = record;
}

// Args, environment and auxv come in parts.
void keep(Saved &saved, const image::Args &record)
{
    saved.arguments += image::as_text(record.data);
}

void keep(Saved &saved, const image::Environ &record)
{
    saved.environment += image::as_text(record.data);
}

void keep(Saved &saved, const image::Auxv &record)
{
    for (size_t i = 0; i < record.pairs.size(); i++)
        saved.auxv.push_back(record.pairs[i]);
}

// Keeps the record; false if it is damaged. `known`: whether a restart knows what to do with it.
bool take(Saved &saved, image::RecordType type, image::Bytes payload, bool &known)
{
    bool good = true;
    known = image::with_record_type(type,
                                    [&]<class R>() {
                                        known = !is_misplaced<R>;
                                        if constexpr (!is_passed_over<R> && !is_misplaced<R>) {
                                            R record;
                                            good = image::decode(payload, record);
                                            if (good)
                                                keep(saved, record);
                                        }
                                    }) &&
            known;
    return good;
}

} // namespace

Result<void> read_saved(image::Image &image, Saved &saved)
{
    return image.records([&](const image::RecordView &view) -> Result<void> {
        // The view's payload is valid during this call only.
        const std::vector<uint8_t> &kept =
            saved.payloads.emplace_back(view.payload.begin(), view.payload.end());
        bool known = true;
        if (!take(saved, view.type, kept, known))
            return Error(EINVAL, "a damaged record in " + image.name());
        if (!known && (view.flags & image::kRequired) != 0) {
            const char *name = image::name_of(view.type);
            return Error(ENOTSUP, image.name() + ": this release cannot restore its record " +
                                      (name != nullptr ? name : "of an unknown type"));
        }
        return {};
    });
}

void learn_files(std::map<uint32_t, image::File> &known,
                 const std::map<uint32_t, image::File> &more)
{
    for (const auto &[id, file] : more) {
        const auto [place, fresh] = known.emplace(id, file);
        if (!fresh && place->second.build_id.empty() && place->second.content_hash.empty())
            place->second = file;
    }
}

} // namespace cryo::restore
