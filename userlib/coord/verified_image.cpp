// SPDX-License-Identifier: Apache-2.0
#include "coord/verified_image.hpp"

#include "coord/image_copy.hpp"
#include "image/base_finder.hpp"
#include "image/verify_needed.hpp"

#include <memory>
#include <utility>

namespace cryo::coord {

Result<void> verify_image(const Directory &directory, const std::string &name)
{
    Result<Fd> in = open_image(directory, name);
    if (!in)
        return in.error();
    const std::string path = directory.path(name);
    const image::BaseFinder finder;
    const Result<std::unique_ptr<image::Snapshot>> snapshot =
        image::Snapshot::open(std::move(*in), path, {.find_base = finder.beside(path)});
    return snapshot ? image::verify_needed(**snapshot) : snapshot.error();
}

} // namespace cryo::coord
