// SPDX-License-Identifier: Apache-2.0
#include "capture/files/files.hpp"

#include "capture/files/file_access.hpp"
#include "capture/files/refused_files.hpp"
#include "resources/kinds.hpp"
#include "resources/locks.hpp"
#include "resources/owner.hpp"
#include "resources/socket/sockets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>

namespace cryo::capture {

using image::FileKind;
using resources::Seen;

Result<void> Files::read_descriptors(std::vector<Holder> holders, std::set<pid_t> zombies)
{
    // We must not hold the program's open files any longer than it is stopped.
    DescriptorLook look(std::move(holders), std::move(zombies));
    if (Result<void> done = look.take(); !done)
        return done;
    SavingContext saving(look, table_, findings_, strings_, objects_, options_);
    resources::Sockets sockets(saving, {.close = options_.close_sockets,
                                        .keep = options_.keep_sockets,
                                        .hold = options_.ends_program ? &hold_ : nullptr});
    if (Result<void> done = sockets.look(); !done)
        return done;
    for (Seen &seen : look.open_files()) {
        const std::string_view why = refusal(seen);
        if (why.empty())
            table_.add_open_file(seen);
        else
            saving.refuse(seen, fmt::format("{} {}", why, seen.link),
                          "close it before the checkpoint");
    }
    for (const std::string &what : table_.left_out())
        saving.notice(what);
    descriptors_.resize(look.holders().size());
    for (const Seen &one : look.descriptors()) {
        image::Descriptor descriptor;
        descriptor.fd = static_cast<uint32_t>(one.fd);
        descriptor.open_file = look.open_file_of(one).open_file;
        descriptor.close_on_exec = one.close_on_exec;
        descriptors_[one.holder].push_back(descriptor);
    }
    refuse_files_about_processes(look);
    for (const Seen &one : look.descriptors()) {
        const Seen &open_file = look.open_file_of(one);
        if (open_file.open_file == 0 || (one.flags & O_PATH) != 0)
            continue;
        resources::save_locks(saving, one, open_file);
    }
    Result<void> done = save_open_files(look, saving);
    return done ? sockets.save() : done;
}

Result<void> Files::save_open_files(const DescriptorLook &look, resources::Saving &saving)
{
    for (const Seen &seen : look.open_files()) {
        if (seen.open_file == 0 || (seen.flags & O_PATH) != 0)
            continue;
        Result<void> done = resources::save_owner(saving, seen, table_.record_of(seen));
        const resources::Kind &kind = resources::kind(seen.kind);
        if (done && (seen.kind == FileKind::regular || seen.kind == FileKind::memfd))
            done = contents_.note(seen, saving);
        else if (done && kind.save != nullptr)
            done = kind.save(saving, seen);
        if (!done)
            return done;
        note_access(seen, look, saving);
    }
    Result<void> done = resources::settle_all(saving);
    return done ? resources::save_all_together(saving) : done;
}

Result<void> Files::save_copied(image::ImageWriter &writer)
{
    for (const CopiedContents &copy : findings_.copied) {
        if (Result<void> saved = capture::save_copied(copy, writer); !saved)
            return saved;
    }
    return {};
}

Result<void> Files::write_records(image::ImageWriter &writer, size_t holder,
                                  const std::set<uint32_t> &mapped) const
{
    Result<void> added;
    const auto all = [&](const auto &records, const auto &chosen) {
        for (const auto &record : records) {
            if (added && chosen(record))
                added = writer.add(record);
        }
    };
    const auto any = [](const auto &) { return true; };
    if (holder != 0) {
        std::set<uint32_t> open_files;
        std::set<uint32_t> files = mapped;
        for (const image::Descriptor &descriptor : descriptors_[holder]) {
            open_files.insert(descriptor.open_file);
            files.insert(table_.open_files()[descriptor.open_file - 1].file);
        }
        all(table_.files(), [&](const image::File &file) { return files.count(file.id) != 0; });
        all(table_.open_files(),
            [&](const image::OpenFile &one) { return open_files.count(one.id) != 0; });
        all(descriptors_[holder], any);
        return added;
    }
    all(table_.files(), any);
    all(table_.open_files(), any);
    all(descriptors_[holder], any);
    findings_.records.each([&](const auto &record) {
        if (added)
            added = writer.add(record);
    });
    for (const std::string &text : findings_.notices) {
        image::Notice notice;
        notice.text = text;
        if (added)
            added = writer.add(notice);
    }
    return added;
}

} // namespace cryo::capture
