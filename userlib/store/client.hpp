// SPDX-License-Identifier: Apache-2.0
//
// The operations of the S3 interface that Cryo uses. What fails for a cause that passes is repeated
// (Retry); every other error names the place and says what the server said. A client is for one
// thread.
//
//     Client client(settings, {});
//     Result<void> put = client.put(place, text);
//     Result<void> got = client.get(place, bytes, sink);     // in one stream, whatever happens on
//     the way
#pragma once

#include "base/result.hpp"
#include "store/answers.hpp"
#include "store/digests.hpp"
#include "store/http.hpp"
#include "store/location.hpp"
#include "store/retry.hpp"
#include "store/settings.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cryo::store {

// Shared by all clients of a command.
struct Terms {
    std::chrono::seconds patience{60};           // with a request that fails
    uint64_t rate = 0;                           // bytes a second of one client; 0: no limit
    std::function<void(uint64_t bytes)> moved{}; // more contents were sent or received
    const std::atomic<bool> *ended = nullptr;    // by another thread: nothing is tried again
};

struct Reading {
    std::string text = {};
    std::string version = {};                     // its ETag
    std::optional<std::chrono::seconds> age = {}; // by the server's clock, if it tells
};

class Client
{
  public:
    Client(const Settings &settings, Terms terms);

    Result<void> put(const Location &at, const std::string &contents);
    // ENOENT: there is no such object. EFBIG: it has more bytes than `most`.
    Result<std::string> read(const Location &at, size_t most);
    Result<Reading> look(const Location &at, size_t most); // the same, and what the server tells
    // Only where there is that version, or "": nothing, and returns the new one; none: there is
    // something else. Servers that do not know conditions write whatever there is.
    Result<std::optional<std::string>> put_over(const Location &at, const std::string &contents,
                                                const std::string &version);
    using Sink = std::function<Result<void>(std::span<const uint8_t>)>;
    // EBADMSG: the object has another size.
    Result<void> get(const Location &at, uint64_t bytes, const Sink &sink);
    // None: there is no such object.
    Result<std::optional<uint64_t>> size(const Location &at);
    Result<void> remove(const Location &at);
    // All objects whose keys begin with the place's key.
    Result<std::vector<StoredObject>> list(const Location &from);

    Result<std::string> begin_upload(const Location &at);
    Result<std::vector<PendingUpload>> uploads(const Location &from);
    Result<std::vector<StoredPart>> parts(const Location &at, const std::string &upload);
    Result<StoredPart> put_part(const Location &at, const std::string &upload, unsigned number,
                                const FilePart &part, const Digests &digests);
    // ENOENT: there is no such upload; it may have been completed.
    Result<void> complete_upload(const Location &at, const std::string &upload,
                                 const std::vector<StoredPart> &parts);
    Result<void> abort_upload(const Location &at, const std::string &upload);
    // As one object, without parts.
    Result<void> put_file(const Location &at, const FilePart &file, const Digests &digests);

  private:
    Result<HttpReply> send(HttpRequest request, const Location &at, long also_good = 0);
    Result<HttpReply> once(const HttpRequest &request, const Location &at, bool &passing);
    Result<HttpReply> put_checked(const Location &at, Names query, const FilePart &part,
                                  const Digests &digests);
    bool may_wait(Retry &retry) const;

    const Settings &settings_;
    Terms terms_;
    Http http_;
};

// What a reply without success means, and whether another try may succeed.
Error error_of(const HttpReply &reply, const Location &at);
bool is_passing(const HttpReply &reply);

} // namespace cryo::store
