// SPDX-License-Identifier: Apache-2.0
//
// Writing a version: the blocks that changed, where the others are, and the partial signature.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

#include "delta/version.hpp"

namespace cryo::delta {

using namespace cryo::image;

namespace {

constexpr size_t kPiece = 1024 * 1024; // a whole number of blocks of every size

class VersionWriter
{
  public:
    VersionWriter(ByteSource &source, const VersionPlan &plan, ImageWriter &writer,
                  const Progress &progress)
        : source_(source), plan_(plan), now_(plan.now), writer_(writer), progress_(progress)
    {}

    Result<void> run()
    {
        if (auto ok = describe(); !ok)
            return ok;
        if (plan_.about.has_contents)
            for (uint64_t at = 0; at < now_.blocks.size();) {
                bool fresh = changed(at);
                uint64_t end = at + 1;
                while (end < now_.blocks.size() && changed(end) == fresh)
                    end++;
                if (auto ok = fresh ? copy(at, end) : refer(at, end); !ok)
                    return ok;
                at = end;
            }
        return add_signature();
    }

  private:
    bool changed(uint64_t block) const { return !plan_.base || !now_.has_same(*plan_.base, block); }
    uint64_t offset(uint64_t block) const { return std::min(block * now_.block_size, now_.size); }

    Result<void> describe()
    {
        const About &a = plan_.about;
        uint64_t count = plan_.base ? count_changed(now_, *plan_.base) : now_.blocks.size();
        About shape{.block_size = now_.block_size, .size = now_.size};
        Delta d{.series = a.series.bytes(),
                .number = a.number,
                .base_number = a.base_number,
                .base = a.base,
                .block_size = now_.block_size,
                .size = now_.size,
                .blocks = now_.blocks.size(),
                .last_block = shape.last_block(),
                .changed = count,
                .content = now_.content().bytes(),
                .base_content = plan_.base ? plan_.base->content().bytes() : Digest().bytes(),
                .base_size = plan_.base ? plan_.base->size : 0,
                .object = a.has_contents ? kContentsObject : 0,
                .signature = kSignatureObject,
                .name = a.name,
                .mode = a.mode,
                .modified = a.modified,
                .tool = "Cryo " CRYO_VERSION};
        Object signature{.id = kSignatureObject,
                         .kind = ObjectKind::signature,
                         .size = count * sizeof(Digest),
                         .name = {}};
        partial_.reserve(count + kPageSize / sizeof(Digest));
        auto ok = writer_.add(d);
        if (ok && a.has_contents)
            ok = writer_.add(Object{.id = kContentsObject,
                                    .kind = ObjectKind::file_contents,
                                    .size = now_.size,
                                    .name = a.name});
        return ok ? writer_.add(signature) : ok;
    }

    Result<void> refer(uint64_t from, uint64_t to)
    {
        uint64_t page = offset(from) / kPageSize;
        uint64_t end = (offset(to) + kPageSize - 1) / kPageSize;
        return writer_.add_base(kContentsObject, page, end - page, page);
    }

    Result<void> copy(uint64_t from, uint64_t to)
    {
        uint64_t end = offset(to);
        for (uint64_t at = offset(from); at < end;) {
            auto size = size_t(std::min<uint64_t>(kPiece, end - at));
            size_t whole = (size + kPageSize - 1) / kPageSize * kPageSize;
            piece_.resize(std::max(piece_.size(), whole));
            MutableBytes bytes = MutableBytes(piece_).first(size);
            if (auto ok = source_.read(at, bytes); !ok)
                return ok;
            if (auto ok = compare(bytes, at / now_.block_size); !ok)
                return ok;
            std::fill(piece_.begin() + long(size), piece_.begin() + long(whole), uint8_t(0));
            auto ok = writer_.add_pages(kContentsObject, at / kPageSize,
                                        MutableBytes(piece_).first(whole));
            if (!ok)
                return ok;
            at += size;
            if (progress_)
                progress_(at, now_.size);
        }
        return {};
    }

    // What is written must be what was signed.
    Result<void> compare(Bytes bytes, uint64_t block) const
    {
        for (size_t i = 0; i < bytes.size(); i += now_.block_size, block++)
            if (checksum128(bytes.subspan(i, now_.block_bytes(block))) != now_.blocks[block])
                return Error(EBUSY, fmt::format("{}: block {} changed while the file was read; "
                                                "give it when its writer has finished",
                                                source_.name(), block));
        return {};
    }

    Result<void> add_signature()
    {
        for (uint64_t i = 0; i < now_.blocks.size(); i++)
            if (changed(i))
                partial_.push_back(now_.blocks[i]);
        while (partial_.size() % (kPageSize / sizeof(Digest)))
            partial_.emplace_back();
        return writer_.add_pages(kSignatureObject, 0, stored_form(partial_));
    }

    ByteSource &source_;
    const VersionPlan &plan_;
    const Signature &now_;
    ImageWriter &writer_;
    const Progress &progress_;
    std::vector<uint8_t> piece_;
    std::vector<Digest> partial_;
};

} // namespace

Result<Committed> write_version(ByteSource &source, const VersionPlan &plan,
                                std::unique_ptr<Sink> sink, const Progress &progress)
{
    WriterOptions options{
        .role = Role::file, .packing = plan.packing, .package_blocks = plan.package_blocks};
    if (plan.about.base == DeltaBase::image)
        options.base = plan.base_image;
    else if (plan.about.base == DeltaBase::file)
        options.base = BaseImage{plan.base->content(), plan.base->content()};
    auto writer = ImageWriter::create(std::move(sink), options);
    if (!writer)
        return writer.error();
    if (auto ok = VersionWriter(source, plan, **writer, progress).run(); !ok)
        return ok.error();
    if (auto ok = source.unchanged(); !ok)
        return ok.error();
    if (plan.before_commit)
        if (auto ok = plan.before_commit((*writer)->id()); !ok)
            return ok.error();
    return (*writer)->commit();
}

} // namespace cryo::delta
