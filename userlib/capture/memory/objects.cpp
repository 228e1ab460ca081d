// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/objects.hpp"

namespace cryo::capture {

namespace {

constexpr uint64_t page = image::kPageSize;

} // namespace

Result<void> save_copied(const CopiedContents &copy, image::ImageWriter &writer)
{
    image::Object object;
    object.id = copy.object;
    object.kind = copy.kind;
    object.size = copy.bytes.size();
    if (Result<void> added = writer.add(object); !added)
        return added;
    std::string whole = copy.bytes;
    whole.resize((whole.size() + page - 1) & ~(page - 1));
    return writer.add_pages(copy.object, 0, image::as_bytes(whole));
}

} // namespace cryo::capture
