// SPDX-License-Identifier: Apache-2.0
//
// The directory in which a server keeps a user's images. Each is one file, under a name that has
// all that is known of it, so an image is there as a whole or not at all:
//
//     DIRECTORY/.lock                             held by the server
//     DIRECTORY/SERIES,NAME~NUMBER~CHECKSUM       an image; NAME~... of one in no series
//     DIRECTORY/.incoming.NUMBER                  one that is on its way
//
// NUMBER grows from image to image. Of two files for one name, as a server that was killed while it
// replaced one may leave them, the later one is the image.
//
//     Result<Depot> depot = Depot::open("/srv/images", quota);
//     auto incoming = depot->begin({"solver", "context.000003"}, bytes, Existing::refuse, "n7");
//     incoming->add(piece), ...;
//     incoming->publish();                        // by any thread: it waits for the disk
//     depot->enter(*incoming);
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/checksum.hpp"
#include "server/url.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace cryo::server {

struct StoredImage {
    ImageName image = {};
    uint64_t number = 0;
    uint64_t bytes = 0;
    std::string checksum = {}; // XXH3-128, as hexadecimal digits
    int64_t when_ns = 0;       // since 1970

    std::string file() const;
};

class Depot;

inline constexpr size_t most_images = 100'000; // of one server

enum class Existing : uint8_t { refuse, replace };

// An image on its way; what was not published goes with this object.
class IncomingImage
{
  public:
    ~IncomingImage();
    IncomingImage(const IncomingImage &) = delete;
    IncomingImage &operator=(const IncomingImage &) = delete;

    const ImageName &image() const { return about_.image; }
    uint64_t bytes() const { return about_.bytes; } // so far
    uint64_t promised() const { return promised_; }
    // EFBIG: it is more than was promised.
    Result<void> add(image::Bytes piece);
    // EBADMSG: what came is not what was sent.
    Result<void> compare(const std::string &checksum);
    // When this is over, the image has its name and is on the disk.
    Result<void> publish();

  private:
    friend class Depot;
    IncomingImage(Depot &depot, ImageName image, uint64_t number, uint64_t promised);
    std::string temporary() const;

    Depot &depot_;
    StoredImage about_;
    uint64_t promised_;
    Fd fd_;
    image::Hasher hasher_;
    bool published_ = false;
};

class Depot
{
  public:
    // `quota` in bytes; 0: as much as the disk has. Makes the directory, for its user alone.
    static Result<std::unique_ptr<Depot>> open(const std::string &path, uint64_t quota);
    Depot(const Depot &) = delete;
    Depot &operator=(const Depot &) = delete;

    const std::string &path() const { return directory_.path(); }
    uint64_t quota() const { return quota_; }
    uint64_t used() const { return used_; }
    const std::map<ImageName, StoredImage> &images() const { return images_; }
    // Names that are none of its own, and are left alone.
    const std::vector<std::string> &others() const { return others_; }

    // EBUSY: another client sends it; EEXIST: it is there; EDQUOT, ENOSPC: there is no room for it.
    Result<std::shared_ptr<IncomingImage>> begin(const ImageName &image, uint64_t bytes,
                                                 Existing existing, const std::string &client);
    // What was published is an image from here on.
    Result<StoredImage> enter(const IncomingImage &incoming);
    // ENOENT: there is none of that name, or none with that checksum.
    Result<StoredImage> find(const ImageName &image) const;
    Result<Fd> open_image(const StoredImage &image) const;
    Result<void> remove(const ImageName &image, const std::string &checksum);

  private:
    friend class IncomingImage;
    Depot(Directory directory, Fd lock, uint64_t quota)
        : directory_(std::move(directory)), lock_(std::move(lock)), quota_(quota)
    {}
    Result<void> look();
    Result<void> has_room(uint64_t bytes) const;

    Directory directory_;
    Fd lock_;
    uint64_t quota_;
    uint64_t used_ = 0;
    uint64_t promised_ = 0; // by clients that are sending
    uint64_t next_ = 1;
    std::map<ImageName, StoredImage> images_;
    std::map<ImageName, std::string> incoming_; // which client sends them
    std::vector<std::string> others_;
};

} // namespace cryo::server
