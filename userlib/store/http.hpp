// SPDX-License-Identifier: Apache-2.0
//
// One signed request after the other to one server, by libcurl. Connections are used again. TLS is
// verified.
//
//     Http http(settings);
//     HttpOutcome outcome = http.perform({.method = "GET", .path = "/bucket/key"});
//     if (outcome.failure) ...                 // nothing, or not all, came back
//     outcome.reply.status
#pragma once

#include "base/result.hpp"
#include "store/settings.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cryo::store {

using Names = std::vector<std::pair<std::string, std::string>>;

// A part of an open file, as the body of a request.
struct FilePart {
    int fd = -1;
    uint64_t offset = 0;
    uint64_t length = 0;
};

struct HttpRequest {
    std::string method = {};
    std::string path = {}; // encoded
    Names query = {};      // not encoded, in any order
    Names headers = {};
    std::string body = {};
    std::optional<FilePart> file = {}; // in place of the body
    std::string sha256 = {};           // of the body or the part
    uint64_t rate = 0;                 // bytes a second; 0: no limit
    // Takes the body of a good reply. An error ends the transfer, and is the outcome's.
    std::function<Result<void>(std::span<const uint8_t>)> sink = {};
    bool from_middle = false; // the sink wants what a "Range" asks for, and not all
    std::function<void(uint64_t bytes)> sent = {}; // more of the body
};

struct HttpReply {
    long status = 0;
    std::map<std::string, std::string> headers = {}; // names in lower case
    std::string body = {};                           // what the sink did not get

    bool is_good() const { return status >= 200 && status < 300; }
    std::string header(const std::string &name) const;
    // Seconds from one time that it tells to another; none: it does not tell both.
    std::optional<int64_t> seconds_between(const std::string &earlier,
                                           const std::string &later) const;
};

struct HttpOutcome {
    HttpReply reply = {};
    std::optional<Error> failure = {};
    bool passing = false; // of a failure: another try may go well
};

class Http
{
  public:
    // `silence`: seconds without a byte after which a transfer has failed.
    Http(const Settings &settings, long silence);
    ~Http();
    Http(const Http &) = delete;
    Http &operator=(const Http &) = delete;

    HttpOutcome perform(const HttpRequest &request);

  private:
    struct Transfer;
    void describe(const HttpRequest &request, Transfer &transfer);
    HttpOutcome outcome_of(int code, Transfer &transfer);

    const Settings &settings_;
    long silence_;
    void *handle_;
};

} // namespace cryo::store
