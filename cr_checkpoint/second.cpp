// SPDX-License-Identifier: Apache-2.0
#include "second.hpp"

#include "base/fd.hpp"
#include "base/trust.hpp"
#include "server/transfer.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

using cryo::Error;
using cryo::Fd;
using cryo::Result;
using cryo::server::Url;

Result<void> complete_second(Options &options)
{
    if (options.second.empty())
        return {};
    const std::string scheme = cryo::server::scheme_of(options.second);
    if (scheme.empty())
        return Error(EINVAL, fmt::format("--second: wants an image at a server, as in "
                                         "cryo://n7/job.1, not '{}' (a second directory is for "
                                         "cr_run --interval)",
                                         options.second));
    if (scheme != cryo::server::url_scheme)
        return Error(ENOTSUP,
                     fmt::format("--second: images are sent to cryo://, not to {}://", scheme));
    const Result<Url> url = Url::parse(options.second);
    if (!url)
        return url.error().within("--second");
    if (url->image.name.empty())
        return Error(EINVAL, fmt::format("--second: {} names no image", options.second));
    if (options.capture.fd >= 0 || options.capture.directory)
        return Error(EINVAL, "--second: only an image that is a file can be sent; save to a file "
                             "(-f)");
    if (options.capture.delta.mode)
        return Error(ENOTSUP, "--second: an image of --delta is of no use without those that it is "
                              "based on; save all of the program, without --delta");
    options.second_url = *url;
    return {};
}

Result<void> send_second(Options &options)
{
    if (!options.second_url)
        return {};
    const std::string &file = options.capture.file;
    const Fd image(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    // Where others may rename files, this may be one of theirs by now: it would run as ours.
    const Result<void> own = image
                                 ? cryo::check_own(image.get(), file, "it is not what was written")
                                 : Result<void>(Error::from_errno(file, errno));
    const Result<cryo::server::Stored> sent =
        own ? cryo::server::send_image(
                  *options.second_url, image.get(),
                  {.replace = true, .progress = options.talk.progress(options.second)})
            : own.error();
    options.talk.end_progress();
    if (!sent)
        return sent.error().within(file + " is complete, but not its copy at the server");
    return {};
}
