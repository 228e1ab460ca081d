// SPDX-License-Identifier: Apache-2.0
#include "server/session.hpp"

#include "base/clock.hpp"
#include "base/print.hpp"
#include "base/printable.hpp"
#include "coord/message.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>
#include <utility>
#include <vector>

namespace cryo::server {

namespace {

using coord::FrameKind;
using coord::Message;
using coord::Speaker;
using coord::Type;
using nlohmann::json;

std::string text_in(const json &fields, const char *name)
{
    return fields.value(name, std::string());
}

// The table has seen to it that neither is a path; the rest is said by name.
Result<ImageName> name_in(const json &fields)
{
    ImageName image = {text_in(fields, "series"), text_in(fields, "name")};
    if (is_image_name(image.name) && (image.series.empty() || is_image_name(image.series)))
        return image;
    return Error(EINVAL, printable(image.text()) + ": is no name for an image");
}

json described(const StoredImage &stored)
{
    json fields = {{"name", stored.image.name},
                   {"bytes", stored.bytes},
                   {"checksum", stored.checksum},
                   {"number", stored.number},
                   {"when_ns", static_cast<uint64_t>(std::max<int64_t>(stored.when_ns, 0))}};
    if (!stored.image.series.empty())
        fields["series"] = stored.image.series;
    return fields;
}

} // namespace

Session::Session(Depot &depot, std::shared_ptr<coord::Channel> channel, std::string node,
                 Publish publish)
    : depot_(depot), channel_(std::move(channel)), node_(std::move(node)),
      publish_(std::move(publish)), heard_ns_(now_ns())
{
    channel_->limit(coord::most_piece);
    channel_->on_frame = [this](FrameKind kind, std::string_view body) { hear(kind, body); };
}

Session::~Session()
{
    incoming_.reset(); // before the client hears of the end
    channel_->on_frame = nullptr;
    channel_->on_end = nullptr;
    channel_->close();
}

void Session::hear(FrameKind kind, std::string_view body)
{
    heard_ns_ = now_ns();
    if (channel_->waiting() > most_waiting) // it asks for more and more, and reads nothing
        return channel_->refuse();
    if (kind == FrameKind::piece) {
        if (!take_piece(body))
            channel_->refuse();
        return;
    }
    const Result<Message> message = coord::unpack(Speaker::sender, body);
    if (kind != FrameKind::json || !message || !take(*message))
        channel_->refuse();
}

// False: that may not come now.
bool Session::take(const Message &message)
{
    const json &fields = message.fields;
    if (message.type == Type::complete && state_ == State::receiving) {
        complete(fields);
        return true;
    }
    if (message.type == Type::complete)
        return state_ == State::ignoring;
    if (state_ == State::receiving || state_ == State::publishing)
        return false;
    state_ = State::idle;
    switch (message.type) {
    case Type::put:
        put(fields);
        return true;
    case Type::find:
        find(fields);
        return true;
    case Type::read:
        read(fields);
        return true;
    case Type::list:
        list(fields);
        return true;
    case Type::remove:
        remove(fields);
        return true;
    default:
        return false;
    }
}

bool Session::take_piece(std::string_view body)
{
    if (state_ == State::ignoring)
        return true;
    if (state_ != State::receiving || body.empty())
        return false;
    const image::Bytes piece(reinterpret_cast<const uint8_t *>(body.data()), body.size());
    if (Result<void> added = incoming_->add(piece); !added) {
        fail(added.error());
        return true;
    }
    channel_->send(Message(Type::took, {{"bytes", incoming_->bytes()}}));
    return true;
}

void Session::fail(const Error &error)
{
    if (incoming_) {
        print(stderr, "cr_server: {} of node {}: {}\n", incoming_->image().text(), node_,
              printable(error.text()));
        state_ = State::ignoring;
        incoming_.reset();
    }
    channel_->send(Message(Type::failed, {{"error", printable(error.text())},
                                          {"code", static_cast<unsigned>(error.code())}}));
}

void Session::put(const json &fields)
{
    const Result<ImageName> image = name_in(fields);
    const Existing existing =
        fields.at("replace").get<bool>() ? Existing::replace : Existing::refuse;
    Result<std::shared_ptr<IncomingImage>> begun =
        image ? depot_.begin(*image, fields.at("bytes"), existing, node_) : image.error();
    if (!begun) {
        fail(begun.error());
        state_ = State::ignoring;
        return;
    }
    incoming_ = std::move(*begun);
    state_ = State::receiving;
    channel_->send(Message(Type::ready));
}

void Session::complete(const json &fields)
{
    if (Result<void> same = incoming_->compare(text_in(fields, "checksum")); !same) {
        fail(same.error());
        state_ = State::idle; // nothing more of it comes
        return;
    }
    state_ = State::publishing;
    publish_(std::exchange(incoming_, nullptr));
}

void Session::published(const Result<StoredImage> &done)
{
    state_ = State::idle;
    heard_ns_ = now_ns();
    if (done)
        channel_->send(Message(Type::kept, described(*done)));
    else
        fail(done.error());
}

void Session::find(const json &fields)
{
    reading_.reset();
    const Result<ImageName> image = name_in(fields);
    const Result<StoredImage> found = image ? depot_.find(*image) : image.error();
    Result<Fd> file = found ? depot_.open_image(*found) : found.error();
    if (!file)
        return fail(file.error());
    found_ = *found;
    reading_ = std::move(*file);
    channel_->send(Message(Type::kept, described(found_)));
}

void Session::read(const json &fields)
{
    const uint64_t offset = fields.at("offset");
    const uint64_t length = fields.at("length");
    if (!reading_ || offset > found_.bytes || length > found_.bytes - offset)
        return fail(Error(EINVAL, "there is nothing to read"));
    std::string piece(length, '\0');
    size_t done = 0;
    while (done < piece.size()) {
        const ssize_t n = pread(reading_.get(), piece.data() + done, piece.size() - done,
                                static_cast<off_t>(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fail(Error::from_errno(found_.image.text(), n < 0 ? errno : EBADMSG));
        done += static_cast<size_t>(n);
    }
    channel_->send(FrameKind::piece, piece);
}

// In the order of their names, those after the one that is named; of a series, or all.
void Session::list(const json &fields)
{
    const ImageName after = {text_in(fields, "series"), text_in(fields, "name")};
    json images = json::array();
    bool more = false;
    for (auto at = depot_.images().upper_bound(after); at != depot_.images().end() && !more; ++at) {
        more = images.size() == coord::most_listed;
        if (!more)
            images.push_back(described(at->second));
    }
    channel_->send(Message(Type::listing, {{"images", std::move(images)},
                                           {"more", more},
                                           {"used", depot_.used()},
                                           {"quota", depot_.quota()}}));
}

void Session::remove(const json &fields)
{
    const Result<ImageName> image = name_in(fields);
    const Result<void> removed =
        image ? depot_.remove(*image, text_in(fields, "checksum")) : Result<void>(image.error());
    if (!removed)
        return fail(removed.error());
    channel_->send(Message(Type::removed));
}

bool Session::look(uint64_t now, uint64_t patience_ns)
{
    const bool is_publishing = state_ == State::publishing;
    if (is_publishing)
        channel_->send(Message(Type::working));
    return channel_->waiting() <= most_waiting &&
           (is_publishing || now < heard_ns_ || now - heard_ns_ <= patience_ns);
}

} // namespace cryo::server
