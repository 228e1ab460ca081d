// SPDX-License-Identifier: Apache-2.0
// The subcommands that use plain files named by the caller: sign, make, apply.
#include <filesystem>

#include "base/print.hpp"
#include "cli/progress.hpp"
#include "delta/plain_file.hpp"
#include "verbs.hpp"

namespace cryo::delta {

using namespace cryo::cli;
using namespace cryo::image;

namespace {

Result<Committed> write(const Options &options, PlainFile &file, const VersionPlan &plan,
                        const Progress &progress)
{
    auto sink = FileSink::create(
        options.output, {.existing = options.force ? Existing::replace : Existing::refuse});
    if (!sink)
        return sink.error();
    return write_version(file, plan, std::move(*sink), progress);
}

About about_file(const std::string &path, const PlainFile &file)
{
    return {.name = std::filesystem::path(path).filename(),
            .mode = file.mode(),
            .modified = file.modified()};
}

Result<void> report(const Options &options, const Committed &done)
{
    auto written = Version::open(options.output);
    if (!written)
        return written.error();
    const About &about = (*written)->about();
    if (options.json) {
        Json json = json_of(about);
        json["stored"] = done.size;
        print_json(options, {{"image", options.output}, {"version", std::move(json)}});
    } else if (!options.quiet) {
        cryo::print("{}: {} of {} blocks, {}\n", printable(options.output), about.changed,
                    about.blocks(), size_text(done.size));
    }
    return {};
}

} // namespace

Result<void> sign(const Options &options)
{
    auto file = PlainFile::open(options.arguments[0]);
    if (!file)
        return file.error();
    ProgressLine line(options.arguments[0], !options.quiet);
    auto now = sign(**file, options.block_size.value_or(kDefaultBlock), line.reporter());
    if (!now)
        return now.error();
    VersionPlan plan{.about = about_file(options.arguments[0], **file), .now = *now};
    plan.about.has_contents = false;
    plan.packing = Packing::raw;
    auto done = write(options, **file, plan, {});
    return done ? report(options, *done) : done.error();
}

Result<void> make(const Options &options)
{
    auto signature = Version::open(options.signature);
    if (!signature)
        return signature.error();
    if ((*signature)->about().base != DeltaBase::none)
        return Error(EINVAL, options.signature + ": is a delta and not the signature of a file");
    auto base = (*signature)->signature(nullptr);
    if (!base)
        return base.error();
    auto file = PlainFile::open(options.arguments[0]);
    if (!file)
        return file.error();
    ProgressLine line(options.arguments[0], !options.quiet);
    auto now = sign(**file, base->block_size, line.reporter());
    if (!now)
        return now.error();
    VersionPlan plan{.about = about_file(options.arguments[0], **file),
                     .now = *now,
                     .base = &*base,
                     .packing = options.packing.value_or(Packing::smallest),
                     .package_blocks = options.package_blocks.value_or(kMaxPackageBlocks)};
    plan.about.base = DeltaBase::file;
    auto done = write(options, **file, plan, line.reporter());
    return done ? report(options, *done) : done.error();
}

Result<void> apply(const Options &options)
{
    auto delta = Version::open(options.arguments[0]);
    if (!delta)
        return delta.error();
    const About &about = (*delta)->about();
    if (about.base != DeltaBase::file)
        return Error(EINVAL,
                     options.arguments[0] + ": is not based on a plain file; use cr_delta restore");
    auto base = PlainFile::open(options.bases.at(0));
    if (!base)
        return base.error();
    // Before anything is written: is it the file that the signature was made of?
    ProgressLine line(options.bases[0], !options.quiet);
    auto signature = sign(**base, about.block_size, line.reporter());
    if (!signature)
        return signature.error();
    if (signature->size != about.base_size || signature->content() != about.base_content)
        return Error(ESTALE, fmt::format("{}: is not the base of {}, or was changed since; the "
                                         "base has {} bytes and signature {}",
                                         options.bases[0], options.arguments[0], about.base_size,
                                         about.base_content.hex()));
    return write_output(options, **delta, base->get());
}

} // namespace cryo::delta
