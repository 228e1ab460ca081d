// SPDX-License-Identifier: Apache-2.0
#include "elsewhere.hpp"

#include "cli/stored.hpp"
#include "server/transfer.hpp"

#include <cerrno>
#include <fcntl.h>
#include <utility>

namespace {

constexpr const char *way_out = " (TMPDIR chooses another place)";

} // namespace

cryo::Result<cryo::Fd> fetch_from_server(Options &options)
{
    const std::string place = cryo::backend::temporary_place();
    cryo::Fd kept(open(place.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!kept)
        return cryo::Error::from_errno(place + ": keeping the image there" + way_out, errno);
    const cryo::Result<cryo::server::Stored> there =
        cryo::server::fetch_image(*options.url, kept.get(), options.talk.progress(options.image));
    options.talk.end_progress();
    if (!there)
        return there.error();
    options.image = options.url->text_of(there->image); // of a series, the last one
    return kept;
}

cryo::Result<cryo::backend::PrivateDirectory> bring_from_store(Options &options)
{
    cryo::Result<cryo::backend::PrivateDirectory> made =
        cryo::backend::PrivateDirectory::make(cryo::backend::temporary_place(), "store");
    if (!made)
        return made.error().with_more(way_out);
    cryo::Result<cryo::cli::Brought> image =
        cryo::cli::bring_stored(options.stored, made->path() + "/image");
    if (!image)
        return image.error().code() == ENOSPC ? image.error().with_more(way_out) : image.error();
    options.image = std::move(image->path);
    options.stored = std::move(image->place); // of a series, the last one
    return made;
}
