// SPDX-License-Identifier: Apache-2.0
#include "store/http.hpp"

#include "store/location.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <curl/curl.h>
#include <fmt/format.h>
#include <memory>
#include <mutex>
#include <unistd.h>

namespace cryo::store {

namespace {

constexpr size_t largest_body = size_t(64) << 20; // of answers, which are lists of at most 1000
constexpr long partial_content = 206;
constexpr long connect_patience = 15; // seconds

struct FreeList {
    void operator()(curl_slist *list) const { curl_slist_free_all(list); }
};
using HeaderList = std::unique_ptr<curl_slist, FreeList>;

void add_header(HeaderList &list, const std::string &name, const std::string &value)
{
    list.reset(curl_slist_append(list.release(), fmt::format("{}: {}", name, value).c_str()));
}

// Sorted, as signatures have it.
std::string query_text(Names query)
{
    std::ranges::sort(query);
    std::string text;
    for (const auto &[name, value] : query)
        text += fmt::format("{}{}={}", text.empty() ? "?" : "&", encode(name), encode(value));
    return text;
}

std::string lower(std::string text)
{
    std::ranges::transform(text, text.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return text;
}

} // namespace

std::string HttpReply::header(const std::string &name) const
{
    const auto at = headers.find(name);
    return at == headers.end() ? std::string() : at->second;
}

std::optional<int64_t> HttpReply::seconds_between(const std::string &earlier,
                                                  const std::string &later) const
{
    const time_t from = curl_getdate(header(earlier).c_str(), nullptr);
    const time_t to = curl_getdate(header(later).c_str(), nullptr);
    return from != -1 && to != -1 ? std::optional(int64_t(to) - from) : std::nullopt;
}

struct Http::Transfer {
    const HttpRequest &request;
    CURL *handle;
    HttpReply reply = {};
    std::optional<Error> failure = {}; // of our own side
    uint64_t sent = 0;
    HeaderList headers = {};
    char message[CURL_ERROR_SIZE] = {};

    uint64_t length() const { return request.file ? request.file->length : request.body.size(); }

    static size_t read(char *to, size_t size, size_t count, void *self)
    {
        return static_cast<Transfer *>(self)->read(to, size * count);
    }
    size_t read(char *to, size_t room)
    {
        const size_t most = std::min<uint64_t>(room, length() - sent);
        ssize_t n = static_cast<ssize_t>(most);
        if (request.file && most > 0) {
            do {
                n = pread(request.file->fd, to, most,
                          static_cast<off_t>(request.file->offset + sent));
            } while (n < 0 && errno == EINTR);
            if (n <= 0) {
                failure = n < 0 ? Error::from_errno("reading the file", errno)
                                : Error(EIO, "the file became shorter while it was sent");
                return CURL_READFUNC_ABORT;
            }
        } else {
            memcpy(to, request.body.data() + sent, most);
        }
        sent += static_cast<uint64_t>(n);
        if (request.sent)
            request.sent(static_cast<uint64_t>(n));
        return static_cast<size_t>(n);
    }

    // A connection that was kept may turn out to be closed: curl then sends all again by another
    // one.
    static int seek(void *self, curl_off_t offset, int origin)
    {
        if (origin != SEEK_SET || offset < 0)
            return CURL_SEEKFUNC_CANTSEEK;
        static_cast<Transfer *>(self)->sent = static_cast<uint64_t>(offset);
        return CURL_SEEKFUNC_OK;
    }

    static size_t write(char *bytes, size_t size, size_t count, void *self)
    {
        return static_cast<Transfer *>(self)->write(bytes, size * count);
    }
    size_t write(char *bytes, size_t size)
    {
        curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &reply.status);
        if (request.sink && reply.is_good()) {
            if (request.from_middle != (reply.status == partial_content)) {
                failure = Error(ENOTSUP, "the object store does not send objects from the middle "
                                         "on, which an interruption made necessary");
                return 0;
            }
            Result<void> taken = request.sink({reinterpret_cast<const uint8_t *>(bytes), size});
            if (taken)
                return size;
            failure = taken.error();
            return 0;
        }
        if (reply.body.size() + size > largest_body) {
            failure = Error(EPROTO, "the object store's answer is too long");
            return 0;
        }
        reply.body.append(bytes, size);
        return size;
    }

    static size_t header(char *bytes, size_t size, size_t count, void *self)
    {
        static_cast<Transfer *>(self)->header({bytes, size * count});
        return size * count;
    }
    void header(std::string_view line)
    {
        while (line.ends_with('\n') || line.ends_with('\r'))
            line.remove_suffix(1);
        if (line.starts_with("HTTP/")) { // after those of "100 Continue"
            reply.headers.clear();
            return;
        }
        const size_t colon = line.find(':');
        if (colon == std::string_view::npos)
            return;
        std::string_view value = line.substr(colon + 1);
        value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
        reply.headers[lower(std::string(line.substr(0, colon)))] = value;
    }
};

Http::Http(const Settings &settings, long silence) : settings_(settings), silence_(silence)
{
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    handle_ = curl_easy_init();
}

Http::~Http()
{
    curl_easy_cleanup(handle_);
}

void Http::describe(const HttpRequest &request, Transfer &transfer)
{
    CURL *handle = handle_;
    curl_easy_reset(handle); // keeps the connections
    const auto set = [handle](CURLoption option, auto value) {
        curl_easy_setopt(handle, option, value);
    };
    set(CURLOPT_URL, (settings_.endpoint + request.path + query_text(request.query)).c_str());
    set(CURLOPT_PATH_AS_IS, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_patience);
    set(CURLOPT_LOW_SPEED_LIMIT, 1L);
    set(CURLOPT_LOW_SPEED_TIME, silence_);
    set(CURLOPT_BUFFERSIZE, 512L << 10);
    set(CURLOPT_UPLOAD_BUFFERSIZE, 512L << 10);
    set(CURLOPT_USERAGENT, "cryo");
    set(CURLOPT_ERRORBUFFER, static_cast<char *>(transfer.message));
    if (!settings_.certificates.empty())
        set(CURLOPT_CAINFO, settings_.certificates.c_str());

    set(CURLOPT_AWS_SIGV4, fmt::format("aws:amz:{}:s3", settings_.region).c_str());
    set(CURLOPT_USERNAME, settings_.access_key.c_str());
    set(CURLOPT_PASSWORD, settings_.secret_key.c_str());
    add_header(transfer.headers, "Host", settings_.host); // older libcurls sign it without the port
    add_header(transfer.headers, "x-amz-content-sha256", request.sha256);
    if (!settings_.session_token.empty())
        add_header(transfer.headers, "x-amz-security-token", settings_.session_token);
    for (const auto &[name, value] : request.headers)
        add_header(transfer.headers, name, value);
    set(CURLOPT_HTTPHEADER, transfer.headers.get());

    if (request.method == "PUT" || request.method == "POST") {
        set(CURLOPT_UPLOAD, 1L);
        set(CURLOPT_READFUNCTION, static_cast<curl_read_callback>(&Transfer::read));
        set(CURLOPT_READDATA, &transfer);
        set(CURLOPT_SEEKFUNCTION, static_cast<curl_seek_callback>(&Transfer::seek));
        set(CURLOPT_SEEKDATA, &transfer);
        set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.length()));
        set(CURLOPT_MAX_SEND_SPEED_LARGE, static_cast<curl_off_t>(request.rate));
    } else if (request.method == "HEAD") {
        set(CURLOPT_NOBODY, 1L);
    }
    if (request.method != "HEAD")
        set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_MAX_RECV_SPEED_LARGE, static_cast<curl_off_t>(request.rate));
    set(CURLOPT_WRITEFUNCTION, static_cast<curl_write_callback>(&Transfer::write));
    set(CURLOPT_WRITEDATA, &transfer);
    set(CURLOPT_HEADERFUNCTION, static_cast<curl_write_callback>(&Transfer::header));
    set(CURLOPT_HEADERDATA, &transfer);
}

HttpOutcome Http::outcome_of(int code, Transfer &transfer)
{
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &transfer.reply.status);
    HttpOutcome outcome{.reply = std::move(transfer.reply)};
    // A server that refuses a body need not read it all: what it said counts.
    const bool was_refused =
        outcome.reply.status >= 300 && (code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR);
    if (transfer.failure) {
        outcome.failure = std::move(transfer.failure);
        return outcome;
    }
    if (code == CURLE_OK || was_refused)
        return outcome;
    const std::string why =
        *transfer.message != 0 ? transfer.message : curl_easy_strerror(static_cast<CURLcode>(code));
    const auto failed = [&](int error, bool passing) {
        outcome.failure = Error(error, fmt::format("{}: {}", settings_.endpoint, why));
        outcome.passing = passing;
    };
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CIPHER:
        failed(EPROTO, false);
        break;
    case CURLE_COULDNT_CONNECT:
        failed(ECONNREFUSED, true);
        break;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        failed(EHOSTUNREACH, true);
        break;
    case CURLE_OPERATION_TIMEDOUT:
        failed(ETIMEDOUT, true);
        break;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
        failed(ECONNRESET, true);
        break;
    default:
        failed(EPROTO, false);
    }
    return outcome;
}

HttpOutcome Http::perform(const HttpRequest &request)
{
    if (handle_ == nullptr)
        return {.failure = Error(ENOMEM, "libcurl cannot be used: no memory")};
    Transfer transfer{.request = request, .handle = handle_};
    describe(request, transfer);
    return outcome_of(curl_easy_perform(handle_), transfer);
}

} // namespace cryo::store
