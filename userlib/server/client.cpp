// SPDX-License-Identifier: Apache-2.0
#include "server/client.hpp"

#include "coord/image_copy.hpp"
#include "coord/message.hpp"
#include "coord/net.hpp"
#include "server/addresses.hpp"
#include "server/session.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace cryo::server {

namespace {

using coord::FrameKind;
using coord::Message;
using coord::Speaker;
using coord::Type;
using nlohmann::json;

constexpr uint32_t most_answer = 1U << 20;
// How long a client waits for a server that says that it is still at work: so many times its
// patience with silence, and so many words, of which a server says one a second.
constexpr int64_t patience_with_work = 60;
constexpr int most_words = 3600;

json named(const ImageName &image)
{
    json fields = json::object();
    if (!image.name.empty())
        fields["name"] = image.name;
    if (!image.series.empty())
        fields["series"] = image.series;
    return fields;
}

// None: no server of Cryo's has such an image.
std::optional<StoredImage> stored_in(const json &fields)
{
    StoredImage stored = {.image = {fields.value("series", std::string()), fields.at("name")},
                          .number = fields.at("number"),
                          .bytes = fields.at("bytes"),
                          .checksum = fields.at("checksum"),
                          .when_ns = static_cast<int64_t>(fields.at("when_ns").get<uint64_t>())};
    if (is_image_name(stored.image.name) &&
        (stored.image.series.empty() || is_image_name(stored.image.series)) &&
        coord::is_image_checksum(stored.checksum))
        return stored;
    return {};
}

// A whole piece, or less at the end of the file.
Result<std::string> read_piece(int fd, uint64_t offset, size_t length)
{
    std::string piece(length, '\0');
    size_t done = 0;
    while (done < length) {
        const ssize_t n =
            pread(fd, piece.data() + done, length - done, static_cast<off_t>(offset + done));
        if (n < 0 && errno != EINTR)
            return Error::from_errno("reading the image", errno);
        if (n == 0)
            break;
        done += n > 0 ? static_cast<size_t>(n) : 0;
    }
    piece.resize(done);
    return piece;
}

Result<void> write_piece(int fd, uint64_t offset, std::string_view piece)
{
    while (!piece.empty()) {
        const ssize_t n = pwrite(fd, piece.data(), piece.size(), static_cast<off_t>(offset));
        if (n < 0 && errno != EINTR)
            return Error::from_errno("keeping the image here", errno);
        if (n == 0)
            return Error::from_errno("keeping the image here", ENOSPC);
        const size_t done = n > 0 ? static_cast<size_t>(n) : 0;
        piece.remove_prefix(done);
        offset += done;
    }
    return {};
}

image::Bytes bytes_of(const std::string &piece)
{
    return {reinterpret_cast<const uint8_t *>(piece.data()), piece.size()};
}

Error changed(const ImageName &image)
{
    return {ESTALE, image.text() + ": the file has changed while it was sent"};
}

} // namespace

Result<Client> Client::connect(const HostAndPort &at, const std::string &secret,
                               const std::string &identity, Patience patience)
{
    const std::string server = fmt::format("{}://{}/", url_scheme, at.text());
    const Result<std::vector<std::string>> addresses = addresses_of(at);
    if (!addresses)
        return addresses.error().within(server);
    Result<Fd> socket = coord::connect_tcp(*addresses, at.port);
    if (!socket)
        return Error(socket.error().code(), fmt::format("{}: there is no server of images ({})",
                                                        server, strerror(socket.error().code())));
    Client client(std::make_unique<Heard>(), server, patience);
    Heard &heard = *client.heard_;
    heard.channel = coord::Channel::make(
        heard.loop, std::move(*socket),
        std::make_unique<coord::Tls>(identity, coord::derived_key(secret, identity)));
    heard.channel->limit(most_answer);
    heard.channel->on_secure = [&heard] {
        heard.secure = true;
        heard.loop.stop();
    };
    heard.channel->on_frame = [&heard](FrameKind kind, std::string_view body) {
        Said said;
        if (kind == FrameKind::piece) {
            said.piece = body;
        } else {
            Result<Message> message = coord::unpack(Speaker::server, body);
            if (kind != FrameKind::json || !message)
                return heard.channel->refuse();
            said.message = std::move(*message);
        }
        heard.said.push_back(std::move(said));
        heard.loop.stop();
    };
    heard.channel->on_end = [&heard] {
        heard.ended = true;
        heard.loop.stop();
    };
    if (Result<void> proven = client.wait([&heard] { return heard.secure; }); !proven) {
        if (proven.error().code() != ECONNRESET)
            return proven.error();
        return Error(EACCES, server + ": the server has ended the connection: it has another key "
                                      "than this one, or is none of Cryo's");
    }
    return client;
}

Result<void> Client::wait(const std::function<bool()> &until)
{
    Heard &heard = *heard_;
    bool is_late = false;
    const uint64_t timer = heard.loop.after(patience_.count(), [&] {
        is_late = true;
        heard.loop.stop();
    });
    while (!until() && !heard.ended && !is_late) {
        heard.loop.resume();
        heard.loop.run();
    }
    heard.loop.call_off(timer);
    if (until())
        return {};
    if (heard.ended)
        return Error(ECONNRESET, server_ + ": the server has ended the connection");
    return Error(ETIMEDOUT,
                 fmt::format("{}: the server has said nothing for {} s", server_,
                             std::chrono::duration_cast<std::chrono::seconds>(patience_).count()));
}

Result<Client::Said> Client::next()
{
    const auto begun = std::chrono::steady_clock::now();
    for (int words = 0;; words++) {
        if (Result<void> heard = wait([&] { return !heard_->said.empty(); }); !heard)
            return heard.error();
        Said said = std::move(heard_->said.front());
        heard_->said.pop_front();
        if (!said.message || said.message->type != Type::working)
            return said;
        if (words >= most_words ||
            std::chrono::steady_clock::now() - begun > patience_with_work * patience_)
            return Error(ETIMEDOUT, server_ + ": the server says that it is at work, and comes to "
                                              "no end");
    }
}

Error Client::why_not(const Said &said) const
{
    if (!said.message || said.message->type != Type::failed)
        return {EPROTO, server_ + ": the server's answer is of another kind than expected"};
    const json &fields = said.message->fields;
    return {fields.at("code").get<int>(), server_ + ": " + fields.at("error").get<std::string>()};
}

Result<Message> Client::answer(Type wanted)
{
    Result<Said> said = next();
    if (!said)
        return said.error();
    if (said->message && said->message->type == wanted)
        return std::move(*said->message);
    return why_not(*said);
}

Result<std::string> Client::piece(uint64_t length)
{
    Result<Said> said = next();
    if (!said)
        return said.error();
    if (said->message)
        return why_not(*said);
    if (said->piece.size() != length)
        return Error(EPROTO, server_ + ": the server has sent a piece of another size");
    return std::move(said->piece);
}

Result<StoredImage> Client::stored(Result<Message> kept) const
{
    if (!kept)
        return kept.error();
    if (const std::optional<StoredImage> image = stored_in(kept->fields))
        return *image;
    return Error(EPROTO, server_ + ": the server's answer is about no image");
}

// Returns the checksum of what was sent.
Result<std::string> Client::send_all(const ImageName &image, int fd, uint64_t bytes,
                                     const PutOptions &how)
{
    const auto begun = std::chrono::steady_clock::now();
    const uint64_t most = std::min<uint64_t>(coord::piece_at(how.rate), coord::most_piece);
    image::Hasher hasher;
    uint64_t sent = 0;
    uint64_t taken = 0;
    while (taken < bytes) {
        if (sent < bytes && sent - taken < most_ahead) {
            const Result<std::string> piece = read_piece(fd, sent, std::min(most, bytes - sent));
            if (!piece)
                return piece.error();
            if (piece->empty())
                return changed(image);
            hasher.add(bytes_of(*piece));
            heard_->channel->send(FrameKind::piece, *piece);
            sent += piece->size();
            std::this_thread::sleep_for(
                coord::pause_after(sent, std::chrono::steady_clock::now() - begun, how.rate));
            if (heard_->said.empty() && sent < bytes && sent - taken < most_ahead)
                continue;
        }
        const Result<Message> took = answer(Type::took);
        if (!took)
            return took.error();
        // After each piece, so that it gets on.
        const uint64_t now = took->fields.at("bytes");
        if (now <= taken || now > sent || (now % most != 0 && now != bytes))
            return Error(EPROTO, server_ + ": the server says that it has what was not sent");
        taken = now;
        if (how.progress)
            how.progress(taken, bytes);
    }
    return hasher.digest().hex();
}

// A client that was killed before it heard that its image is kept sends it once more.
Result<StoredImage> Client::already(const ImageName &image, int fd, const Error &exists)
{
    Result<StoredImage> there = find(image);
    if (!there)
        return exists;
    image::Hasher hasher;
    uint64_t bytes = 0;
    for (;;) {
        const Result<std::string> piece = read_piece(fd, bytes, coord::most_piece);
        if (!piece)
            return piece.error();
        if (piece->empty())
            break;
        hasher.add(bytes_of(*piece));
        bytes += piece->size();
    }
    return there->bytes == bytes && there->checksum == hasher.digest().hex() ? there : exists;
}

Result<StoredImage> Client::put(const ImageName &image, int fd, const PutOptions &how)
{
    struct stat status = {};
    if (fstat(fd, &status) != 0)
        return Error::from_errno(image.text(), errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, image.text() + ": only a file can be sent");
    const auto bytes = static_cast<uint64_t>(status.st_size);
    json fields = named(image);
    fields["bytes"] = bytes;
    fields["replace"] = how.existing == Existing::replace;
    heard_->channel->send(Message(Type::put, std::move(fields)));
    if (const Result<Message> ready = answer(Type::ready); !ready)
        return ready.error().code() == EEXIST ? already(image, fd, ready.error()) : ready.error();
    const Result<std::string> checksum = send_all(image, fd, bytes, how);
    if (!checksum)
        return checksum.error();
    if (fstat(fd, &status) != 0 || static_cast<uint64_t>(status.st_size) != bytes)
        return changed(image);
    heard_->channel->send(Message(Type::complete, {{"checksum", *checksum}}));
    Result<StoredImage> kept = stored(answer(Type::kept));
    if (kept && (kept->checksum != *checksum || kept->bytes != bytes || kept->image != image))
        return Error(EPROTO, server_ + ": the server says that it has another image");
    return kept;
}

Result<StoredImage> Client::find(const ImageName &image)
{
    heard_->channel->send(Message(Type::find, named(image)));
    return stored(answer(Type::kept));
}

Result<std::string> Client::read(uint64_t offset, uint64_t length)
{
    heard_->channel->send(Message(Type::read, {{"offset", offset}, {"length", length}}));
    return piece(length);
}

Result<StoredImage> Client::get(const ImageName &image, int fd, const Progress &progress)
{
    Result<StoredImage> found = find(image);
    if (!found)
        return found;
    if (found->image != image)
        return Error(EPROTO, server_ + ": the server has given another image than " + image.text());
    image::Hasher hasher;
    uint64_t asked = 0;
    uint64_t done = 0;
    while (done < found->bytes) {
        while (asked < found->bytes && asked - done < most_ahead) {
            const uint64_t length = std::min<uint64_t>(coord::most_piece, found->bytes - asked);
            heard_->channel->send(Message(Type::read, {{"offset", asked}, {"length", length}}));
            asked += length;
        }
        const Result<std::string> next_piece =
            piece(std::min<uint64_t>(coord::most_piece, found->bytes - done));
        if (!next_piece)
            return next_piece.error();
        if (Result<void> written = write_piece(fd, done, *next_piece); !written)
            return written.error();
        hasher.add(bytes_of(*next_piece));
        done += next_piece->size();
        if (progress)
            progress(done, found->bytes);
    }
    if (hasher.digest().hex() != found->checksum)
        return Error(EBADMSG,
                     fmt::format("{}{}: is not what was saved (checksum)", server_, image.text()));
    return found;
}

Result<Listing> Client::list(const std::string &series)
{
    Listing all;
    ImageName after = {series, {}};
    for (bool more = true; more;) {
        heard_->channel->send(Message(Type::list, named(after)));
        const Result<Message> listing = answer(Type::listing);
        if (!listing)
            return listing.error();
        const json &fields = listing->fields;
        all.used = fields.at("used");
        all.quota = fields.at("quota");
        more = fields.at("more").get<bool>();
        for (const json &one : fields.at("images")) {
            std::optional<StoredImage> image = stored_in(one);
            if (!image || image->image <= after)
                return Error(EPROTO, server_ + ": the server's list is not in order, or names what "
                                               "can be no image");
            after = image->image;
            if (!series.empty() && image->image.series != series) {
                more = false;
                break;
            }
            if (all.images.size() == most_images)
                return Error(EPROTO, server_ + ": the server's list has no end");
            all.images.push_back(std::move(*image));
        }
        more = more && !fields.at("images").empty();
    }
    return all;
}

Result<void> Client::remove(const ImageName &image, const std::string &checksum)
{
    json fields = named(image);
    fields["checksum"] = checksum;
    heard_->channel->send(Message(Type::remove, std::move(fields)));
    const Result<Message> removed = answer(Type::removed);
    return removed ? Result<void>() : Result<void>(removed.error());
}

} // namespace cryo::server
