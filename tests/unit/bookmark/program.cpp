// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <algorithm>
#include <map>
#include <random>

namespace cryo::bookmark::sim {

int index_of(const std::vector<WorldRank> &group, WorldRank rank)
{
    auto at = std::find(group.begin(), group.end(), rank);
    return at == group.end() ? -1 : int(at - group.begin());
}

const std::vector<WorldRank> &CommPlan::peers(WorldRank of) const
{
    return remote.empty() || index_of(group, of) < 0 ? group : remote;
}

bool CommPlan::has(WorldRank rank) const
{
    return index_of(group, rank) >= 0 || index_of(remote, rank) >= 0;
}

std::vector<WorldRank> CommPlan::all() const
{
    std::vector<WorldRank> out = group;
    out.insert(out.end(), remote.begin(), remote.end());
    return out;
}

namespace {

constexpr int kWild = 1; // a duplicate of the world on which all receives take anything

class Drawer
{
  public:
    Drawer(uint64_t seed, uint32_t ranks, bool asks, bool straddles)
        : random_(seed), asks_(asks), straddles_(straddles)
    {
        program_.ranks.resize(ranks);
        CommPlan world;
        for (WorldRank r = 0; r < ranks; r++)
            world.group.push_back(r);
        program_.comms = {world, world};
        alive_ = {0};
        make(0, {kWild});
    }

    Program draw(int events)
    {
        for (now_ = 0; now_ < events; now_++) {
            flush(now_);
            if (asks_ && chance(10))
                ckpt();
            event();
        }
        flush(events + kFar);
        while (alive_.size() > 1)
            free(alive_.back());
        for (WorldRank r : program_.comms[0].group)
            add(r, {.kind = Do::collective}); // MPI_Finalize
        return std::move(program_);
    }

  private:
    static constexpr int kFar = 1000;

    int upto(int n) { return int(random_() % uint64_t(n)); }
    bool chance(int percent) { return upto(100) < percent; }
    void add(WorldRank rank, Op op) { program_.ranks[rank].push_back(std::move(op)); }
    void later(int when, WorldRank rank, Op op) { later_.insert({when, {rank, std::move(op)}}); }
    int soon() { return now_ + 1 + upto(12); }
    void flush(int until)
    {
        while (!later_.empty() && later_.begin()->first <= until) {
            auto [rank, op] = later_.begin()->second;
            later_.erase(later_.begin());
            add(rank, op);
        }
    }
    int any_comm() { return alive_[size_t(upto(int(alive_.size())))]; }

    struct Pair {
        int comm;
        WorldRank from, to;
    };
    Pair pair(int comm)
    {
        const CommPlan &plan = program_.comms[size_t(comm)];
        std::vector<WorldRank> all = plan.all();
        WorldRank from = all[size_t(upto(int(all.size())))];
        const auto &peers = plan.peers(from);
        return {comm, from, peers[size_t(upto(int(peers.size())))]};
    }

    void make(int parent, std::vector<int> made)
    {
        for (WorldRank r : program_.comms[size_t(parent)].all())
            add(r, {.kind = Do::make_comms, .comm = parent, .made = made});
    }
    void free(int comm)
    {
        // Messages in flight on it are received first, as MPI requires.
        flush(now_ + kFar);
        for (WorldRank r : program_.comms[size_t(comm)].all())
            add(r, {.kind = Do::free_comm, .comm = comm});
        std::erase(alive_, comm);
    }

    // Each program has its own mixture of events.
    void event()
    {
        static constexpr void (Drawer::*kinds[])() = {
            &Drawer::plain,      &Drawer::plain, &Drawer::from_anybody,
            &Drawer::rendezvous, &Drawer::wild,  &Drawer::early_receive,
            &Drawer::collective, &Drawer::split, &Drawer::non_blocking_collective,
            &Drawer::free_one,   &Drawer::never, &Drawer::epoch,
            &Drawer::compute};
        if (weights_.empty())
            for (size_t i = 0; i < std::size(kinds); i++)
                weights_.push_back(chance(20) ? 0.1 : 1.0 + upto(10));
        std::discrete_distribution<size_t> kind(weights_.begin(), weights_.end());
        (this->*kinds[kind(random_)])();
    }

    void plain()
    {
        Pair p = pair(any_comm());
        int tag = upto(4);
        uint64_t bytes = 8 + uint64_t(upto(64));
        add(p.from, {.kind = Do::send, .comm = p.comm, .peer = p.to, .tag = tag, .bytes = bytes});
        Op r{.kind = chance(30) ? Do::probe_recv : Do::recv,
             .comm = p.comm,
             .peer = p.from,
             .tag = tag};
        if (chance(10))
            r.capacity = 8; // perhaps too small
        if (chance(25)) {
            int slot = slot_++;
            int when = soon();
            later(when, p.to,
                  {.kind = Do::mprobe, .comm = p.comm, .peer = p.from, .tag = tag, .slot = slot});
            later(when + upto(6), p.to, {.kind = Do::mrecv, .slot = slot});
        } else {
            later(soon(), p.to, r);
        }
    }

    void from_anybody()
    {
        Pair p = pair(any_comm());
        int tag = 10 + upto(3);
        add(p.from, {.kind = Do::send, .comm = p.comm, .peer = p.to, .tag = tag});
        later(soon(), p.to,
              {.kind = chance(40) ? Do::probe_recv : Do::recv,
               .comm = p.comm,
               .any_source = true,
               .tag = tag,
               .polls = chance(30),
               .unordered = true});
    }

    void early_receive()
    {
        Pair p = pair(any_comm());
        int slot = slot_++;
        int tag = 1000 + now_;
        add(p.to, {.kind = Do::irecv,
                   .comm = p.comm,
                   .peer = p.from,
                   .any_source = chance(40),
                   .tag = tag,
                   .slot = slot});
        int when = soon();
        later(
            when, p.from,
            {.kind = Do::send, .comm = p.comm, .peer = p.to, .tag = tag, .rendezvous = chance(50)});
        later(when + upto(10), p.to,
              {.kind = Do::wait_recv, .comm = p.comm, .polls = chance(30), .slot = slot});
    }

    void rendezvous()
    {
        Pair p = pair(any_comm());
        int tag = 2000 + now_;
        Op receive{.kind = Do::recv, .comm = p.comm, .peer = p.from, .tag = tag};
        if (chance(40)) {
            add(p.from,
                {.kind = Do::send, .comm = p.comm, .peer = p.to, .tag = tag, .rendezvous = true});
            // A blocking send to the same rank would wait for ever.
            if (p.from == p.to)
                program_.ranks[p.from].pop_back();
            else
                add(p.to, receive);
            return;
        }
        int slot = slot_++;
        add(p.from, {.kind = Do::isend,
                     .comm = p.comm,
                     .peer = p.to,
                     .tag = tag,
                     .bytes = 8 + uint64_t(upto(4096)),
                     .rendezvous = true,
                     .slot = slot});
        int when = soon();
        later(when, p.to, receive);
        later(when + upto(10), p.from, {.kind = Do::wait_send, .slot = slot});
    }

    void wild()
    {
        Pair p = pair(kWild);
        add(p.from, {.kind = Do::send, .comm = kWild, .peer = p.to, .tag = upto(5)});
        Op r{.kind = Do::recv,
             .comm = kWild,
             .any_source = true,
             .any_tag = true,
             .unordered = true};
        int when = soon();
        if (chance(40)) {
            later(when, p.to, r);
            return;
        }
        r.slot = slot_++;
        r.kind = Do::irecv;
        later(when, p.to, r);
        r.kind = chance(50) ? Do::cancel_recv : Do::wait_recv;
        later(when + upto(10), p.to, r);
    }

    void collective()
    {
        int comm = any_comm();
        Op op{.kind = Do::collective, .comm = comm, .how = Collective(upto(3))};
        const auto all = program_.comms[size_t(comm)].all();
        op.peer = all[size_t(upto(int(all.size())))];
        for (WorldRank r : all)
            add(r, op);
    }

    void non_blocking_collective()
    {
        int comm = any_comm();
        const auto all = program_.comms[size_t(comm)].all();
        Op op{.kind = Do::icollective, .comm = comm, .slot = slot_++, .how = Collective(upto(3))};
        op.peer = all[size_t(upto(int(all.size())))];
        for (WorldRank r : all) {
            add(r, op);
            later(soon(), r, {.kind = Do::wait_collective, .comm = comm, .slot = op.slot});
        }
    }

    void split()
    {
        int parent = any_comm();
        if (program_.comms.size() > 12 || !program_.comms[size_t(parent)].remote.empty())
            return;
        CommPlan a;
        CommPlan b;
        for (WorldRank r : program_.comms[size_t(parent)].group)
            (chance(50) ? a : b).group.push_back(r);
        if (a.group.empty() || b.group.empty())
            return;
        std::vector<int> made;
        if (chance(30)) {
            a.remote = b.group;
            b.group.clear();
        }
        for (const CommPlan &plan : {a, b}) {
            if (plan.group.empty())
                continue;
            made.push_back(int(program_.comms.size()));
            alive_.push_back(made.back());
            program_.comms.push_back(plan);
        }
        make(parent, made);
    }

    void free_one()
    {
        if (alive_.size() > 1 && chance(40))
            free(alive_[1 + size_t(upto(int(alive_.size()) - 1))]);
    }

    void compute()
    {
        add(WorldRank(upto(int(program_.ranks.size()))),
            {.kind = Do::compute, .steps = 1 + upto(60), .deaf = chance(20)});
    }

    void ckpt()
    {
        // Without straddling, everything sent before the call is received before it.
        if (!straddles_)
            flush(now_ + kFar);
        for (WorldRank r : program_.comms[0].group)
            later(straddles_ ? soon() : now_, r, {.kind = Do::ckpt});
        if (!straddles_)
            flush(now_);
    }

    void never()
    {
        Pair p = pair(any_comm());
        int slot = slot_++;
        add(p.to, {.kind = Do::irecv,
                   .comm = p.comm,
                   .peer = p.from,
                   .any_source = chance(50),
                   .tag = 3000 + now_,
                   .slot = slot});
        later(soon(), p.to, {.kind = Do::cancel, .comm = p.comm, .slot = slot});
    }

    void epoch()
    {
        auto rank = WorldRank(upto(int(program_.ranks.size())));
        add(rank, {.kind = Do::open_epoch});
        later(soon(), rank, {.kind = Do::close_epoch});
    }

    std::mt19937_64 random_;
    Program program_;
    std::vector<int> alive_;
    std::vector<double> weights_;
    std::multimap<int, std::pair<WorldRank, Op>> later_;
    int now_ = 0;
    int slot_ = 0;
    bool asks_;
    bool straddles_;
};

} // namespace

Program draw_program(uint64_t seed, uint32_t ranks, int events, bool asks, bool straddles)
{
    return Drawer(seed, ranks, asks, straddles).draw(events);
}

} // namespace cryo::bookmark::sim
