// SPDX-License-Identifier: Apache-2.0
#include "store/client.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/format.h>

namespace cryo::store {

namespace {

// The digest of no bytes.
constexpr const char *empty_sha256 =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr long not_found = 404;
constexpr long not_as_wanted = 412;         // a condition of the request
constexpr long silence = 30;                // seconds
constexpr size_t most_objects = 10'000'000; // of one list

struct Meaning {
    std::string_view code;
    int error;
    const char *what;
};

constexpr std::array meanings = {
    Meaning{"NoSuchBucket", ENOENT, "there is no such bucket"},
    Meaning{"NoSuchKey", ENOENT, "there is no such object"},
    Meaning{"NoSuchUpload", ENOENT, "there is no such upload"},
    Meaning{"AccessDenied", EACCES, "the object store denies access to it with these credentials"},
    Meaning{"InvalidAccessKeyId", EACCES, "the object store does not know the access key"},
    Meaning{"SignatureDoesNotMatch", EACCES, "the secret key does not belong to the access key"},
    Meaning{"ExpiredToken", EACCES, "the credentials have expired"},
    Meaning{"InvalidToken", EACCES, "the session token is not valid"},
    Meaning{"RequestTimeTooSkewed", ETIME, "the clock here differs too much from the server's"},
    Meaning{"BadDigest", EBADMSG, "what arrived there is not what was sent"},
    Meaning{"XAmzContentSHA256Mismatch", EBADMSG, "what arrived there is not what was sent"},
    Meaning{"EntityTooLarge", EFBIG, "it is too large for the object store"},
    Meaning{"QuotaExceeded", EDQUOT, "the quota in the object store is used up"},
    Meaning{"AuthorizationHeaderMalformed", EINVAL, "the bucket is in another region (AWS_REGION)"},
    Meaning{"PermanentRedirect", EINVAL, "the bucket is in another region (AWS_REGION)"},
    Meaning{"MethodNotAllowed", ENOTSUP, "the object store does not support what is needed"},
    Meaning{"NotImplemented", ENOTSUP, "the object store does not support what is needed"},
};

int error_of_status(long status)
{
    switch (status) {
    case 301:
    case 307:
        return EINVAL;
    case 401:
    case 403:
        return EACCES;
    case 404:
        return ENOENT;
    case 507:
        return ENOSPC;
    default:
        return is_passing({.status = status}) ? EAGAIN : EPROTO;
    }
}

Error without_end(const Location &at)
{
    return {EPROTO, at.text() + ": the object store's list of what is there has no end"};
}

Error damaged(const Location &at, std::string_view why)
{
    return {EBADMSG, fmt::format("{}: is damaged: {}", at.text(), why)};
}

} // namespace

bool is_passing(const HttpReply &reply)
{
    switch (reply.status) {
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504:
        return true;
    default:
        break;
    }
    const std::string code = refusal_in(reply.body).code;
    return code == "SlowDown" || code == "RequestTimeout" || code == "InternalError" ||
           code == "OperationAborted" || code == "ConditionalRequestConflict";
}

Error error_of(const HttpReply &reply, const Location &at)
{
    const Refusal said = refusal_in(reply.body);
    const auto *known = std::ranges::find(meanings, said.code, &Meaning::code);
    if (known != meanings.end())
        return {known->error, fmt::format("{}: {}", at.text(), known->what)};
    if (said.code.empty())
        return {error_of_status(reply.status),
                reply.status == 403 || reply.status == 401
                    ? fmt::format("{}: the object store denies access to it", at.text())
                    : fmt::format("{}: the object store answers with status {}", at.text(),
                                  reply.status)};
    return {error_of_status(reply.status), fmt::format("{}: the object store answers: {}: {}",
                                                       at.text(), said.code, said.message)};
}

Client::Client(const Settings &settings, Terms terms)
    : settings_(settings), terms_(std::move(terms)), http_(settings_, silence)
{}

bool Client::may_wait(Retry &retry) const
{
    return (terms_.ended == nullptr || !*terms_.ended) && retry.wait();
}

Result<HttpReply> Client::once(const HttpRequest &request, const Location &at, bool &passing)
{
    HttpOutcome outcome = http_.perform(request);
    passing = outcome.failure ? outcome.passing : is_passing(outcome.reply);
    if (outcome.failure)
        return outcome.failure->within(at.text());
    return std::move(outcome.reply);
}

// `also_good`: a status that is an answer, too.
Result<HttpReply> Client::send(HttpRequest request, const Location &at, long also_good)
{
    if (!request.file) {
        const Result<Digests> digests = digests_of(request.body);
        if (!digests)
            return digests.error();
        request.sha256 = digests->sha256;
    }
    Retry retry(terms_.patience);
    for (;;) {
        bool passing = false;
        Result<HttpReply> reply = once(request, at, passing);
        if (reply && (reply->is_good() || reply->status == also_good))
            return reply;
        const Error error = reply ? error_of(*reply, at) : reply.error();
        if (!passing)
            return error;
        if (!may_wait(retry))
            return retry.given_up(error);
    }
}

Result<std::optional<std::string>> Client::put_over(const Location &at, const std::string &contents,
                                                    const std::string &version)
{
    const Result<Digests> digests = digests_of(contents);
    if (!digests)
        return digests.error();
    HttpRequest request{.method = "PUT",
                        .path = at.path(),
                        .headers = {{"Content-MD5", digests->md5_base64}},
                        .body = contents};
    const HttpRequest without = request;
    request.headers.emplace_back(version.empty() ? "If-None-Match" : "If-Match",
                                 version.empty() ? "*" : version);
    Result<HttpReply> reply = send(std::move(request), at, not_as_wanted);
    if (!reply && reply.error().code() == ENOTSUP)
        reply = send(without, at);
    if (!reply)
        return reply.error();
    return reply->status == not_as_wanted ? std::optional<std::string>()
                                          : std::optional(reply->header("etag"));
}

Result<void> Client::put(const Location &at, const std::string &contents)
{
    const Result<Digests> digests = digests_of(contents);
    if (!digests)
        return digests.error();
    const Result<HttpReply> reply = send({.method = "PUT",
                                          .path = at.path(),
                                          .headers = {{"Content-MD5", digests->md5_base64}},
                                          .body = contents},
                                         at);
    return reply ? Result<void>() : reply.error();
}

Result<std::string> Client::read(const Location &at, size_t most)
{
    Result<Reading> reading = look(at, most);
    if (!reading)
        return reading.error();
    return std::move(reading->text);
}

Result<Reading> Client::look(const Location &at, size_t most)
{
    Result<HttpReply> reply = send({.method = "GET", .path = at.path()}, at);
    if (!reply)
        return reply.error();
    if (reply->body.size() > most)
        return Error(EFBIG, fmt::format("{}: has {} bytes, which is too much", at.text(),
                                        reply->body.size()));
    Reading reading{.text = std::move(reply->body), .version = reply->header("etag")};
    if (const std::optional<int64_t> age = reply->seconds_between("last-modified", "date"))
        reading.age = std::chrono::seconds(*age);
    return reading;
}

Result<void> Client::get(const Location &at, uint64_t bytes, const Sink &sink)
{
    uint64_t done = 0;
    std::string version; // what was begun with
    Retry retry(terms_.patience);
    const Location &place = at;
    while (done < bytes) {
        uint64_t now = 0;
        HttpRequest request{.method = "GET", .path = at.path(), .sha256 = empty_sha256};
        request.rate = terms_.rate;
        if (done > 0) {
            request.from_middle = true;
            request.headers.emplace_back("Range", fmt::format("bytes={}-", done));
            if (!version.empty())
                request.headers.emplace_back("If-Match", version);
        }
        request.sink = [&](std::span<const uint8_t> piece) -> Result<void> {
            if (piece.size() > bytes - done - now)
                return damaged(place, "it has more bytes than were saved");
            now += piece.size();
            if (terms_.moved)
                terms_.moved(piece.size());
            return sink(piece);
        };
        HttpOutcome outcome = http_.perform(request);
        const HttpReply &reply = outcome.reply;
        if (reply.status == not_as_wanted)
            return damaged(at, "it was replaced while it was read");
        if (reply.status == 416)
            return damaged(at, fmt::format("it has less than {} bytes", bytes));
        if (version.empty())
            version = reply.header("etag");
        if (now > 0) {
            done += now;
            retry.progressed();
        }
        if (!outcome.failure && reply.is_good()) {
            if (done != bytes)
                return damaged(at, fmt::format("it has {} bytes in place of {}", done, bytes));
            return {};
        }
        const Error error =
            outcome.failure ? outcome.failure->within(at.text()) : error_of(reply, at);
        if (!(outcome.failure ? outcome.passing : is_passing(reply)))
            return error;
        if (!may_wait(retry))
            return retry.given_up(error);
    }
    return {};
}

Result<std::optional<uint64_t>> Client::size(const Location &at)
{
    const Result<HttpReply> reply = send({.method = "HEAD", .path = at.path()}, at, not_found);
    if (!reply)
        return reply.error();
    if (reply->status == not_found)
        return std::optional<uint64_t>();
    const std::string length = reply->header("content-length");
    if (length.empty() || length.find_first_not_of("0123456789") != std::string::npos)
        return Error(EPROTO, at.text() + ": the object store does not tell its size");
    return std::optional<uint64_t>(strtoull(length.c_str(), nullptr, 10));
}

Result<void> Client::remove(const Location &at)
{
    const Result<HttpReply> reply = send({.method = "DELETE", .path = at.path()}, at, not_found);
    return reply ? Result<void>() : reply.error();
}

Result<std::vector<StoredObject>> Client::list(const Location &from)
{
    const Location bucket{from.bucket, {}};
    std::vector<StoredObject> objects;
    std::string next;
    do {
        Names query = {{"list-type", "2"}, {"prefix", from.key}};
        if (!next.empty())
            query.emplace_back("continuation-token", next);
        const Result<HttpReply> reply =
            send({.method = "GET", .path = bucket.path(), .query = query}, from);
        if (!reply)
            return reply.error();
        Result<ObjectList> page = object_list(reply->body);
        if (!page)
            return page.error().within(from.text());
        std::ranges::move(page->objects, std::back_inserter(objects));
        if (objects.size() > most_objects)
            return without_end(from);
        next = page->next;
    } while (!next.empty());
    return objects;
}

Result<std::string> Client::begin_upload(const Location &at)
{
    const Result<HttpReply> reply =
        send({.method = "POST", .path = at.path(), .query = {{"uploads", ""}}}, at);
    if (!reply)
        return reply.error();
    Result<std::string> id = upload_id(reply->body);
    return id ? std::move(id) : id.error().within(at.text());
}

Result<std::vector<PendingUpload>> Client::uploads(const Location &from)
{
    const Location bucket{from.bucket, {}};
    std::vector<PendingUpload> uploads;
    std::string next_key, next_id;
    do {
        Names query = {{"uploads", ""}, {"prefix", from.key}};
        if (!next_key.empty())
            query.emplace_back("key-marker", next_key);
        if (!next_id.empty())
            query.emplace_back("upload-id-marker", next_id);
        const Result<HttpReply> reply =
            send({.method = "GET", .path = bucket.path(), .query = query}, from);
        if (!reply)
            return reply.error();
        Result<UploadList> page = upload_list(reply->body);
        if (!page)
            return page.error().within(from.text());
        std::ranges::move(page->uploads, std::back_inserter(uploads));
        if (uploads.size() > most_objects)
            return without_end(from);
        next_key = page->next_key;
        next_id = page->next_id;
    } while (!next_key.empty());
    return uploads;
}

Result<std::vector<StoredPart>> Client::parts(const Location &at, const std::string &upload)
{
    std::vector<StoredPart> parts;
    std::string next;
    do {
        Names query = {{"uploadId", upload}};
        if (!next.empty())
            query.emplace_back("part-number-marker", next);
        const Result<HttpReply> reply =
            send({.method = "GET", .path = at.path(), .query = query}, at);
        if (!reply)
            return reply.error();
        Result<PartList> page = part_list(reply->body);
        if (!page)
            return page.error().within(at.text());
        std::ranges::move(page->parts, std::back_inserter(parts));
        if (parts.size() > most_parts)
            return without_end(at);
        next = page->next;
    } while (!next.empty());
    return parts;
}

// The server compares what it received with both digests.
Result<HttpReply> Client::put_checked(const Location &at, Names query, const FilePart &part,
                                      const Digests &digests)
{
    return send({.method = "PUT",
                 .path = at.path(),
                 .query = std::move(query),
                 .headers = {{"Content-MD5", digests.md5_base64}},
                 .file = part,
                 .sha256 = digests.sha256,
                 .rate = terms_.rate,
                 .sent = terms_.moved},
                at);
}

Result<StoredPart> Client::put_part(const Location &at, const std::string &upload, unsigned number,
                                    const FilePart &part, const Digests &digests)
{
    const Result<HttpReply> reply = put_checked(
        at, {{"partNumber", std::to_string(number)}, {"uploadId", upload}}, part, digests);
    if (!reply)
        return reply.error();
    StoredPart stored{number, part.length, without_quotes(reply->header("etag"))};
    if (stored.etag.empty())
        return Error(EPROTO, at.text() + ": the object store gives the part no ETag");
    return stored;
}

Result<void> Client::complete_upload(const Location &at, const std::string &upload,
                                     const std::vector<StoredPart> &parts)
{
    Retry retry(terms_.patience);
    for (;;) {
        const Result<HttpReply> reply = send({.method = "POST",
                                              .path = at.path(),
                                              .query = {{"uploadId", upload}},
                                              .body = completion(parts)},
                                             at);
        if (!reply)
            return reply.error();
        if (is_completed(reply->body))
            return {};
        // The status is sent before the work is done: so an error comes with a good one.
        const Error error = refusal_in(reply->body).code.empty()
                                ? Error(EPROTO, at.text() + ": the object store does not say "
                                                            "that the upload is complete")
                                : error_of(*reply, at);
        if (!is_passing(*reply))
            return error;
        if (!may_wait(retry))
            return retry.given_up(error);
    }
}

Result<void> Client::abort_upload(const Location &at, const std::string &upload)
{
    const Result<HttpReply> reply = send(
        {.method = "DELETE", .path = at.path(), .query = {{"uploadId", upload}}}, at, not_found);
    return reply ? Result<void>() : reply.error();
}

Result<void> Client::put_file(const Location &at, const FilePart &file, const Digests &digests)
{
    const Result<HttpReply> reply = put_checked(at, {}, file, digests);
    return reply ? Result<void>() : reply.error();
}

} // namespace cryo::store
