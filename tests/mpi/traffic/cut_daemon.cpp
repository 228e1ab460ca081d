// SPDX-License-Identifier: Apache-2.0
//
// The root of a one-daemon tree: waits for the ranks of a job, and requests checkpoints at random
// times as long as they run. Nothing is saved. Prints the results.
//
//     cut_daemon SOCKET RANKS SEED MICROSECONDS
//
// Between two checkpoints it waits up to MICROSECONDS. Exits with 1 if a checkpoint was abandoned
// for any other reason than the end of a rank.
#include "bookmark/node.hpp"

#include <charconv>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace {

using namespace cryo::bookmark;
using Clock = std::chrono::steady_clock;

class Sockets : public Node::Output
{
  public:
    explicit Sockets(uint32_t ranks) : of_rank(ranks, -1) {}
    void to_child(uint32_t child, Bytes message) override
    {
        if (of_rank[child] >= 0)
            send(of_rank[child], message.data(), message.size(), MSG_NOSIGNAL);
    }
    void to_parent(Bytes /*message*/) override {}
    void state(const StateEntry &state) override { fmt::print("# {}\n", describe(state)); }
    void wanted() override { wants = true; }

    std::vector<int> of_rank;
    bool wants = false;
};

Routes routes_of(uint32_t ranks)
{
    std::vector<WorldRank> here;
    for (uint32_t i = 0; i < ranks; i++)
        here.push_back(i);
    return Topology({here}, ranks).routes(0);
}

class Daemon
{
  public:
    Daemon(uint32_t ranks, uint64_t seed, unsigned pause)
        : sockets_(ranks), node_({.routes = routes_of(ranks), .root = true}, sockets_),
          random_(seed), pause_(pause)
    {}

    bool accept_all(int listener)
    {
        for (size_t i = 0; i < sockets_.of_rank.size(); i++) {
            const int fd = accept(listener, nullptr, nullptr);
            uint32_t rank = 0;
            if (fd < 0 || recv(fd, &rank, sizeof(rank), 0) != sizeof(rank) ||
                rank >= sockets_.of_rank.size())
                return false;
            sockets_.of_rank[rank] = fd;
        }
        return true;
    }

    int run()
    {
        plan();
        while (alive() > 0) {
            if (node_.outcome() != Node::Outcome::working && Clock::now() >= next_ && !gone_)
                ask();
            listen();
            judge();
        }
        fmt::print("cuts {} abandoned {}\n", cuts_, abandoned_);
        return faults_ == 0 ? 0 : 1;
    }

  private:
    size_t alive() const
    {
        size_t count = 0;
        for (const int fd : sockets_.of_rank)
            count += fd >= 0;
        return count;
    }

    void plan() { next_ = Clock::now() + std::chrono::microseconds(random_() % pause_); }

    void ask()
    {
        if (!node_.request())
            return;
        asked_ = Clock::now();
        working_ = true;
    }

    void listen()
    {
        std::vector<pollfd> waited;
        std::vector<uint32_t> whose;
        for (uint32_t i = 0; i < sockets_.of_rank.size(); i++) {
            if (sockets_.of_rank[i] < 0)
                continue;
            waited.push_back({sockets_.of_rank[i], POLLIN, 0});
            whose.push_back(i);
        }
        const auto left =
            std::chrono::duration_cast<std::chrono::nanoseconds>(next_ - Clock::now());
        const int64_t wait = working_ ? 100'000'000 : std::max<int64_t>(left.count(), 0);
        const timespec time = {.tv_sec = wait / 1'000'000'000, .tv_nsec = wait % 1'000'000'000};
        ppoll(waited.data(), waited.size(), gone_ ? nullptr : &time, nullptr);
        for (size_t i = 0; i < waited.size(); i++) {
            if (waited[i].revents != 0)
                hear(whose[i]);
        }
    }

    void hear(uint32_t rank)
    {
        std::vector<uint8_t> packet(1 << 20);
        const ssize_t size =
            recv(sockets_.of_rank[rank], packet.data(), packet.size(), MSG_DONTWAIT);
        if (size < 0)
            return;
        if (size == 0) {
            close(sockets_.of_rank[rank]);
            sockets_.of_rank[rank] = -1;
            gone_ = true;
            node_.lost_child(rank);
            return;
        }
        packet.resize(static_cast<size_t>(size));
        if (auto heard = node_.from_child(rank, packet); !heard) {
            fmt::print("rank {}: not a message of the protocol\n", rank);
            faults_++;
        }
    }

    void judge()
    {
        if (!working_)
            return;
        if (node_.outcome() == Node::Outcome::working) {
            if (Clock::now() - asked_ > std::chrono::seconds(10)) {
                asked_ = Clock::now();
                node_.inquire();
                fflush(stdout);
            }
            return;
        }
        working_ = false;
        plan();
        if (node_.outcome() == Node::Outcome::done) {
            cuts_++;
            return;
        }
        abandoned_++;
        if (node_.reason().doing != Doing::gone) {
            fmt::print("abandoned: {}\n", describe(node_.reason()));
            faults_++;
        }
    }

    Sockets sockets_;
    Node node_;
    std::mt19937_64 random_;
    unsigned pause_;
    Clock::time_point next_, asked_;
    bool working_ = false;
    bool gone_ = false; // a rank has ended; the others will follow
    unsigned cuts_ = 0;
    unsigned abandoned_ = 0;
    unsigned faults_ = 0;
};

uint64_t number(const char *text)
{
    uint64_t value = 0;
    std::from_chars(text, text + strlen(text), value);
    return value;
}

} // namespace

int main(int argc, char **argv)
{
    // The ranks keep every core busy while they wait; on a loaded machine the daemon might request
    // nothing before they finish. Without permission it runs at normal priority.
    const sched_param first = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR, &first);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    if (argc != 5 || strlen(argv[1]) >= sizeof(address.sun_path)) {
        fmt::print(stderr, "usage: cut_daemon SOCKET RANKS SEED MICROSECONDS\n");
        return 2;
    }
    strcpy(address.sun_path, argv[1]);
    const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (bind(listener, reinterpret_cast<sockaddr *>(&address), sizeof(address)) != 0 ||
        listen(listener, 128) != 0) {
        perror(argv[1]);
        return 2;
    }
    fmt::print("listening\n");
    fflush(stdout);
    Daemon daemon(uint32_t(number(argv[2])), number(argv[3]), unsigned(number(argv[4])));
    if (!daemon.accept_all(listener)) {
        perror("accept");
        return 2;
    }
    return daemon.run();
}
