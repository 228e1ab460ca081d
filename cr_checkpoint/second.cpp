// SPDX-License-Identifier: Apache-2.0
#include "second.hpp"

#include "base/fd.hpp"
#include "base/trust.hpp"
#include "cli/stored.hpp"
#include "server/transfer.hpp"
#include "store/location.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>

namespace {

using cryo::Error;
using cryo::Fd;
using cryo::Result;
using cryo::server::Check;
using cryo::server::Url;

constexpr const char *option = "--second";

// What is known to fail is refused while there is still a program to be saved.
bool is_the_last(const Options &options)
{
    return options.capture.files.ends_program;
}

Result<void> complete_url(Options &options)
{
    const Result<Url> url = Url::parse(options.second);
    if (!url)
        return url.error().within(option);
    if (url->image.name.empty())
        return Error(EINVAL, fmt::format("--second: {} names no image", options.second));
    if (options.capture.fd >= 0 || options.capture.directory)
        return Error(EINVAL, "--second: only an image that is a file can be sent to a server; save "
                             "to a file (-f)");
    if (options.capture.delta.mode)
        return Error(ENOTSUP, "--second: an image of --delta is of no use at a server without "
                              "those that it is based on; save all of the program, without "
                              "--delta");
    options.second_url = *url;
    const Result<void> possible =
        cryo::server::check_sending(*url, is_the_last(options) ? Check::server : Check::key);
    return possible ? Result<void>() : possible.error().within(option);
}

Result<void> complete_stored(Options &options)
{
    const Result<cryo::store::Location> place = cryo::store::Location::parse(options.second);
    if (!place)
        return place.error().within(option);
    if (options.capture.fd >= 0)
        return Error(EINVAL, "--second: only files can be put into an object store; save to a file "
                             "(-f) or a directory (-d)");
    const Result<void> possible = cryo::cli::check_stored(options.second, is_the_last(options));
    return possible ? Result<void>() : possible.error().within(option);
}

Result<void> send_to_server(const Options &options, const cryo::cli::TellProgress &progress)
{
    const std::string &file = options.capture.file;
    const Fd image(open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    // Where others may rename files, this may be one of theirs by now: it would run as ours.
    Result<void> own = image ? cryo::check_own(image.get(), file, "it is not what was written")
                             : Result<void>(Error::from_errno(file, errno));
    if (!own)
        return own;
    const Result<cryo::server::Stored> sent = cryo::server::send_image(
        *options.second_url, image.get(), {.replace = true, .progress = progress});
    return sent ? Result<void>() : Result<void>(sent.error());
}

} // namespace

Result<void> complete_second(Options &options)
{
    if (options.second.empty())
        return {};
    const std::string scheme = cryo::server::scheme_of(options.second);
    if (scheme == cryo::server::url_scheme)
        return complete_url(options);
    if (cryo::cli::is_stored(options.second))
        return complete_stored(options);
    if (!scheme.empty())
        return Error(ENOTSUP, fmt::format("--second: images are sent to cryo:// and s3://, not to "
                                          "{}://",
                                          scheme));
    return Error(EINVAL, fmt::format("--second: wants an image at a server, as in "
                                     "cryo://n7/job.1, or in an object store, as in "
                                     "s3://bucket/job.1, not '{}' (a second directory is for "
                                     "cr_run --interval)",
                                     options.second));
}

Result<void> send_second(Options &options)
{
    if (options.second.empty())
        return {};
    const std::string &file = options.capture.file;
    const cryo::cli::TellProgress progress = options.talk.progress(options.second);
    if (options.second_url) {
        const Result<void> sent = send_to_server(options, progress);
        options.talk.end_progress();
        return sent ? sent
                    : sent.error().within(file + " is complete, but not its copy at the "
                                                 "server");
    }
    const Result<cryo::cli::Pushed> pushed =
        cryo::cli::push_stored(file, options.second, {.progress = progress});
    options.talk.end_progress();
    if (!pushed)
        return pushed.error()
            .with_more(fmt::format("; `cr_store push {} {}` sends it again", file, options.second))
            .within(file + " is complete, but not its copy in the object store");
    options.talk.notices(pushed->notices);
    options.second = pushed->place;
    return {};
}
