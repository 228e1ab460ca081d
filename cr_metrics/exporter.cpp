// SPDX-License-Identifier: Apache-2.0
#include "exporter.hpp"

#include "privileges.hpp"

#include <cerrno>
#include <csignal>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace cryo::metrics {

namespace {

constexpr Family build = {"cryo_build_info", Type::gauge, "The version of cr_metrics."};

constexpr const char *page_type = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char *plain_type = "text/plain; charset=utf-8";
constexpr int most_events = 10'000; // before those who ask are answered again

Result<Fd> signals_to_end()
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, nullptr);
    Fd fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd)
        return Error::from_errno("signalfd", errno);
    return fd;
}

} // namespace

Exporter::Exporter(std::vector<std::string> directories, std::function<void(const Error &)> tell)
    : tell_(tell), collector_(std::move(directories), std::move(tell))
{}

Result<std::unique_ptr<Exporter>> Exporter::open(const std::string &address,
                                                 std::vector<std::string> directories,
                                                 std::function<void(const Error &)> tell)
{
    std::unique_ptr<Exporter> made(new Exporter(std::move(directories), std::move(tell)));
    Exporter *self = made.get();
    Result<Fd> signals = signals_to_end();
    if (!signals)
        return signals.error();
    made->signals_ = std::move(*signals);
    Result<Server> server = Server::listen(
        address, {{"/metrics", {page_type, [self] { return self->page(); }}},
                  {"/-/healthy", {plain_type, [] { return std::string("healthy\n"); }}}});
    if (!server)
        return server.error();
    made->server_.emplace(std::move(*server));
    made->join();
    if (const Result<void> given_up = give_up_capabilities(); !given_up)
        return given_up.error();
    // Only now, so that what will be unreadable later is unreadable here.
    if (const Result<void> good = made->collector_.check(); !good)
        return good.error();
    return made;
}

void Exporter::join()
{
    Result<EventListener> listener = EventListener::join();
    if (listener)
        listener_.emplace(std::move(*listener));
    else
        tell_(listener.error().with_more("; only the files of programs are served"));
}

// All that has come. After a loss, what has come later can still be read.
void Exporter::hear()
{
    for (int i = 0; i < most_events; i++) {
        const Result<std::optional<Event>> event = listener_->next();
        if (!event && event.error().code() == ENOBUFS) {
            tally_.lost();
            continue;
        }
        if (!event) {
            tell_(event.error());
            listener_.reset();
            return;
        }
        if (!*event)
            return;
        tally_.count(**event);
    }
}

std::string Exporter::page()
{
    Exposition text;
    text.add(build, {{"version", CRYO_VERSION}}, 1);
    collector_.look(text);
    if (listener_ && !listener_->is_current()) {
        tell_(Error(ENODEV, "the kernel module was unloaded, so its events are not heard any more; "
                            "when it is loaded again, start cr_metrics anew"));
        listener_.reset();
    }
    tally_.add(text, listener_.has_value());
    return text.text();
}

Result<void> Exporter::work()
{
    for (;;) {
        pollfd ready[] = {{signals_.get(), POLLIN, 0},
                          {server_->fd(), POLLIN, 0},
                          {listener_ ? listener_->fd() : -1, POLLIN, 0}};
        if (poll(ready, std::size(ready), server_->patience_ms()) < 0 && errno != EINTR)
            return Error::from_errno("poll", errno);
        if (ready[0].revents != 0)
            return {};
        if (ready[2].revents != 0)
            hear();
        server_->serve();
    }
}

} // namespace cryo::metrics
