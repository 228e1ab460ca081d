// SPDX-License-Identifier: Apache-2.0
//
// What TLS costs a connection of two daemons, beside the same frames over TCP as they are. Both
// ends are in one thread here and work one after the other, which two nodes would do at the same
// time in part.
#include <fmt/format.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>

#include "coord/channel.hpp"
#include "coord/net.hpp"
#include "ratios.hpp"

using namespace cryo;
using namespace cryo::coord;
using namespace cryo::bench;

namespace {

// Of a job on four nodes: three daemons join the first one, and each has one above it in the tree.
constexpr int kConnections = 6;
const std::string kSecret(64, '7');
const std::string kWho = "join/node1";
const std::string kMessage(256, 'm'); // as long as what daemons tell each other
const std::string kLarge(65536, 'l');

// Connects to itself; what arrives at the end that accepts is sent back.
class Ends
{
  public:
    explicit Ends(const Listening &at)
    {
        Result<Fd> socket = connect_tcp(at.addresses, at.port);
        pollfd look = {at.socket.get(), POLLIN, 0};
        poll(&look, 1, 2000);
        Fd accepted(accept4(at.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket || !accepted)
            return;
        be_quick(accepted.get());
        from_ = std::move(*socket);
        to_ = std::move(accepted);
    }

    // False: what came back is not what was sent.
    bool meet(bool sealed, const std::string &first)
    {
        if (!from_)
            return false;
        accepting_ = Channel::make(loop_, std::move(to_), sealed ? acceptor() : nullptr);
        accepting_->on_frame = [this](FrameKind kind, std::string_view body) {
            accepting_->send(kind, body);
        };
        accepting_->on_end = [this] { loop_.stop(); };
        connecting_ = Channel::make(loop_, std::move(from_), sealed ? connector() : nullptr);
        connecting_->on_end = [this] { loop_.stop(); };
        connecting_->on_frame = [this](FrameKind, std::string_view body) {
            got_ = body == *sent_;
            loop_.stop();
        };
        connecting_->on_secure = [this] { connecting_->send(FrameKind::json, *sent_); };
        sent_ = &first;
        if (!sealed)
            connecting_->on_secure();
        return wait();
    }

    bool ask(const std::string &body)
    {
        sent_ = &body;
        connecting_->send(FrameKind::json, body);
        return wait();
    }

  private:
    static std::unique_ptr<Tls> connector()
    {
        return std::make_unique<Tls>(kWho, derived_key(kSecret, kWho));
    }
    static std::unique_ptr<Tls> acceptor()
    {
        return std::make_unique<Tls>(
            [](const std::string &who) { return std::optional(derived_key(kSecret, who)); });
    }
    bool wait()
    {
        got_ = false;
        loop_.resume();
        loop_.run();
        return got_;
    }

    Loop loop_;
    Fd from_, to_;
    std::shared_ptr<Channel> accepting_, connecting_;
    const std::string *sent_ = nullptr;
    bool got_ = false;
};

void connect(benchmark::State &state, const Listening &at, bool sealed)
{
    for (auto _ : state) {
        if (!Ends(at).meet(sealed, kMessage))
            return state.SkipWithError("the first frame did not come back");
    }
}

void round_trip(benchmark::State &state, const Listening &at, bool sealed, const std::string &body)
{
    Ends ends(at);
    if (!ends.meet(sealed, kMessage))
        return state.SkipWithError("the first frame did not come back");
    for (auto _ : state) {
        if (!ends.ask(body))
            return state.SkipWithError("a frame did not come back");
    }
}

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    const Result<Listening> at = keep_port("127.0.0.1");
    if (!at || !at->listen()) {
        fmt::print(stderr, "channel_bench: nothing listens\n");
        return 1;
    }
    for (const bool sealed : {false, true}) {
        const char *way = sealed ? "TLS" : "TCP";
        benchmark::RegisterBenchmark(
            fmt::format("connect {}", way).c_str(),
            [&at, sealed](benchmark::State &b) { connect(b, *at, sealed); })
            ->Iterations(bench.full() ? 200 : 2);
        for (const std::string *body : {&kMessage, &kLarge}) {
            benchmark::RegisterBenchmark(
                fmt::format("{} {}", body->size(), way).c_str(),
                [&at, sealed, body](benchmark::State &b) { round_trip(b, *at, sealed, *body); })
                ->Iterations(bench.full() ? 2000 : 2);
        }
    }
    bench.run();
    const double added = bench.time("connect TLS") - bench.time("connect TCP");
    bench.ratio(fmt::format("TLS, {} connections of four nodes: adds ms", kConnections),
                kConnections * added * 1e3, at_most(20));
    bench.ratio("connection and first answer, TLS beside TCP: time",
                bench.time("connect TLS") / bench.time("connect TCP"), std::nullopt);
    for (const std::string *body : {&kMessage, &kLarge}) {
        const double sealed = bench.time(fmt::format("{} TLS", body->size()));
        const double plain = bench.time(fmt::format("{} TCP", body->size()));
        bench.ratio(fmt::format("frame of {} bytes and back, TLS beside TCP: time", body->size()),
                    sealed / plain, std::nullopt);
        bench.ratio(fmt::format("frame of {} bytes and back: TLS adds us", body->size()),
                    (sealed - plain) * 1e6, std::nullopt);
    }
    return bench.finish();
}
