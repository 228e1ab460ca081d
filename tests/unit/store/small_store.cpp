// SPDX-License-Identifier: Apache-2.0
#include "small_store.hpp"

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <utility>

namespace cryo::store {

namespace {

std::string date(int64_t when)
{
    return fmt::format("{:%a, %d %b %Y %H:%M:%S GMT}", fmt::gmtime(static_cast<time_t>(when)));
}

std::string reply(const std::string &status, const std::string &more, const std::string &body,
                  size_t length)
{
    return fmt::format("HTTP/1.1 {}\r\nDate: {}\r\n{}Content-Length: {}\r\n\r\n{}", status,
                       date(time(nullptr)), more, length, body);
}

std::string error(const std::string &status, const std::string &code)
{
    const std::string body = fmt::format("<Error><Code>{}</Code></Error>", code);
    return reply(status, "", body, body.size());
}

// False: the other end has closed.
bool more(const Fd &socket, std::string &text)
{
    char bytes[65536];
    const ssize_t n = recv(socket.get(), bytes, sizeof(bytes), 0);
    text.append(bytes, n > 0 ? static_cast<size_t>(n) : 0);
    return n > 0;
}

void say(const Fd &socket, const std::string &text)
{
    for (size_t sent = 0; sent < text.size();) {
        const ssize_t n = send(socket.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        sent += static_cast<size_t>(n);
    }
}

} // namespace

SmallStore::SmallStore() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
{
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto *at = reinterpret_cast<sockaddr *>(&address);
    if (bind(listener_.get(), at, size) != 0 || listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), at, &size) != 0)
        throw std::runtime_error("cannot listen");
    port_ = ntohs(address.sin_port);
    accepting_ = std::jthread([this] { serve(); });
}

SmallStore::~SmallStore()
{
    shutdown(listener_.get(), SHUT_RDWR);
    accepting_.join();
    {
        const std::lock_guard lock(mutex_);
        for (const int fd : open_)
            shutdown(fd, SHUT_RDWR);
    }
    threads_.clear();
}

Settings SmallStore::settings() const
{
    Settings made;
    made.access_key = "key";
    made.secret_key = "secret";
    made.region = "here";
    made.host = fmt::format("127.0.0.1:{}", port_);
    made.endpoint = "http://" + made.host;
    return made;
}

std::vector<std::string> SmallStore::keys()
{
    const std::lock_guard lock(mutex_);
    std::vector<std::string> all;
    for (const auto &[key, object] : objects_)
        all.push_back(key);
    return all;
}

void SmallStore::put(const std::string &key, const std::string &contents)
{
    const std::lock_guard lock(mutex_);
    objects_[key] = {contents, fmt::format("\"{}\"", ++versions_), time(nullptr)};
}

void SmallStore::make_older(const std::string &key, int64_t seconds)
{
    const std::lock_guard lock(mutex_);
    objects_.at(key).when -= seconds;
}

void SmallStore::serve()
{
    for (;;) {
        Fd one(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!one)
            return;
        const std::lock_guard lock(mutex_);
        open_.push_back(one.get());
        threads_.emplace_back(
            [this, socket = std::move(one)]() mutable { serve(std::move(socket)); });
    }
}

void SmallStore::serve(Fd socket)
{
    std::string text;
    bool alive = true;
    while (alive) {
        size_t end;
        while (alive && (end = text.find("\r\n\r\n")) == std::string::npos)
            alive = more(socket, text);
        if (!alive)
            break;
        Request request;
        std::string head = text.substr(0, end + 2);
        text.erase(0, end + 4);
        const size_t first = head.find(' '), second = head.find(' ', first + 1);
        request.method = head.substr(0, first);
        request.key = head.substr(first + 2, second - first - 2);
        for (size_t at = head.find("\r\n") + 2; at < head.size();) {
            const size_t stop = head.find("\r\n", at), colon = head.find(':', at);
            std::string name = head.substr(at, colon - at);
            std::ranges::transform(name, name.begin(), [](char c) { return std::tolower(c); });
            request.headers[name] = head.substr(colon + 2, stop - colon - 2);
            at = stop + 2;
        }
        if (request.headers.contains("expect"))
            say(socket, "HTTP/1.1 100 Continue\r\n\r\n");
        const size_t length = strtoull(request.headers["content-length"].c_str(), nullptr, 10);
        while (alive && text.size() < length)
            alive = more(socket, text);
        request.body = text.substr(0, length);
        text.erase(0, length);
        const std::string said = answer(request);
        const bool is_lost = loses_answer && loses_answer(request.method, request.key);
        say(socket, is_lost ? error("503 Slow Down", "SlowDown") : said);
    }
    const std::lock_guard lock(mutex_); // its number is another one's from here on
    std::erase(open_, socket.get());
    socket.reset();
}

std::string SmallStore::answer(const Request &request)
{
    if (const std::string said = instead ? instead(request.method, request.key) : ""; !said.empty())
        return reply("200 OK", "", said, said.size());
    const std::lock_guard lock(mutex_);
    const auto at = objects_.find(request.key);
    const bool there = at != objects_.end();
    if (request.method == "PUT") {
        const auto none = request.headers.find("if-none-match");
        const auto same = request.headers.find("if-match");
        const bool differs =
            (none != request.headers.end() && there) ||
            (same != request.headers.end() && (!there || at->second.version != same->second));
        if (knows_conditions && differs)
            return error("412 Precondition Failed", "PreconditionFailed");
        Object &object = objects_[request.key];
        object = {request.body, fmt::format("\"{}\"", ++versions_), time(nullptr)};
        return reply("200 OK", fmt::format("ETag: {}\r\n", object.version), "", 0);
    }
    if (request.method == "DELETE") {
        objects_.erase(request.key);
        return reply("204 No Content", "", "", 0);
    }
    const bool wants_body = request.method == "GET";
    if (!there)
        return wants_body ? error("404 Not Found", "NoSuchKey") : reply("404 Not Found", "", "", 0);
    const std::string more =
        fmt::format("ETag: {}\r\nLast-Modified: {}\r\n", at->second.version, date(at->second.when));
    const std::string &contents = at->second.contents;
    return reply("200 OK", more, wants_body ? contents : "", contents.size());
}

} // namespace cryo::store
