// SPDX-License-Identifier: Apache-2.0
#include "backend/open_image.hpp"

#include "backend/private_directory.hpp"
#include "base/limits.hpp"
#include "base/write_all.hpp"
#include "image/base_finder.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace cryo::backend {

// A restart reads the image in random order, so one from a pipe is copied to an unnamed file.
Result<Fd> keep_piped(int from)
{
    const std::string directory = temporary_place();
    Fd file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file)
        return Error::from_errno(
            fmt::format("{}: keeping the image there (TMPDIR chooses another place)", directory),
            errno);
    std::vector<char> buffer(1 << 20);
    for (;;) {
        const ssize_t n = read(from, buffer.data(), buffer.size());
        if (n == 0)
            return file;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno("reading the image", errno);
        const std::string_view part(buffer.data(), static_cast<size_t>(n));
        if (Result<void> kept =
                write_all(file.get(), directory + ": keeping the image there", part);
            !kept)
            return kept.error();
    }
}

namespace {

Result<std::unique_ptr<image::Snapshot>> open_descriptor(int fd, const std::string &name,
                                                         image::OpenOptions options)
{
    struct stat status;
    Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!own || fstat(own.get(), &status) != 0)
        return Error::from_errno(name, errno);
    if (!S_ISREG(status.st_mode)) {
        options.trust = {}; // a pipe's owner says nothing; the caller knows its source
        Result<Fd> kept = keep_piped(own.get());
        if (!kept)
            return kept.error().within(name);
        own = std::move(*kept);
    }
    return image::Snapshot::open(std::move(own), name, std::move(options));
}

} // namespace

Result<std::shared_ptr<image::Snapshot>> open_image(const RestartRequest &request,
                                                    const std::string &file)
{
    if (request.image)
        return request.image;
    allow_descriptors();
    const image::BaseFinder bases(request.bases, request.trust);
    const image::OpenOptions options = {.find_base = bases.beside(file), .trust = request.trust};
    Result<std::unique_ptr<image::Snapshot>> image =
        request.fd >= 0 ? open_descriptor(request.fd, file, options)
                        : image::Snapshot::open(file, options);
    if (!image)
        return image.error();
    return std::shared_ptr<image::Snapshot>(std::move(*image));
}

Result<std::unique_ptr<image::Image>> open_first_member(const RestartRequest &request,
                                                        const std::string &file)
{
    const Result<std::shared_ptr<image::Snapshot>> opened = open_image(request, file);
    return opened ? (*opened)->open_member((*opened)->members().front()) : opened.error();
}

} // namespace cryo::backend
