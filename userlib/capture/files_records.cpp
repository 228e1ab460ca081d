// SPDX-License-Identifier: Apache-2.0
// What the image of each process gets of the common tables.
#include "capture/files.hpp"

namespace cryo::capture {

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
            files.insert(open_files_[descriptor.open_file - 1].file);
        }
        all(files_, [&](const image::File &file) { return files.count(file.id) != 0; });
        all(open_files_, [&](const image::OpenFile &one) { return open_files.count(one.id) != 0; });
        all(descriptors_[holder], any);
        return added;
    }
    all(files_, any);
    all(open_files_, any);
    all(descriptors_[holder], any);
    records_.each([&](const auto &record) {
        if (added)
            added = writer.add(record);
    });
    for (const std::string &text : notices_) {
        image::Notice notice;
        notice.text = text;
        if (added)
            added = writer.add(notice);
    }
    return added;
}

} // namespace cryo::capture
