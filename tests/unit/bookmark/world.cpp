// SPDX-License-Identifier: Apache-2.0
#include "world.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "rank_sim.hpp"
#include "tree_sim.hpp"

namespace cryo::bookmark::sim {

std::string name(Sabotage sabotage)
{
    static const char *const names[] = {"none",
                                        "send_not_counted",
                                        "receive_counted_twice",
                                        "send_counted_late",
                                        "collective_not_ticked",
                                        "nonblocking_collective_not_ticked",
                                        "drained_ignored",
                                        "drained_newest_first",
                                        "oldest_withdrawn_first",
                                        "match_taken_for_withdrawn",
                                        "matched_probe_kept",
                                        "targets_lost",
                                        "raise_lost",
                                        "need_lost",
                                        "ready_not_renewed",
                                        "expected_too_small",
                                        "expected_early",
                                        "go_early",
                                        "links_overtake"};
    static_assert(std::size(names) == size_t(Sabotage::last));
    return names[size_t(sabotage)];
}

namespace {

using Packed = TreeSim::Packed;

class World
{
  public:
    explicit World(const Options &options)
        : shared_(options), options_(options), links_(options.program->ranks.size())
    {
        auto n = uint32_t(links_.size());
        for (WorldRank r = 0; r < n; r++) {
            links_[r] = std::make_unique<RankLink>(*this, r);
            ranks_.push_back(std::make_unique<SimRank>(shared_, r, *links_[r]));
            speeds_.push_back(chance(20) ? 2 : 10 + upto(90));
        }
        for (int &weight : weights_)
            weight = 5 + upto(95);
        weights_[0] += 60;
        patience_ = 20 + upto(800);
        plant_tree();
    }

    Report run()
    {
        uint64_t last_progress = progress();
        uint64_t still = 0;
        for (uint64_t steps = 0; shared_.report.fault.empty(); steps++) {
            maybe_request();
            maybe_kill();
            act();
            check_outcome();
            if (over())
                break;
            uint64_t now = progress();
            bool moving = now != last_progress || tree_->busy() || shared_.net.channels() ||
                          shared_.net.transfers();
            still = moving ? 0 : still + 1;
            last_progress = now;
            // Only ranks can make progress now: each is stepped, and if none advances, none will.
            if (still > 100)
                ranks_[still % ranks_.size()]->step();
            if (still > 100 + 60 * ranks_.size() || steps > 4'000'000) {
                if (!lose_patience())
                    stuck();
                still = 0;
            }
        }
        Report &report = shared_.report;
        for (const auto &r : ranks_)
            report.digests.push_back(r->digest());
        return std::move(report);
    }

  private:
    class RankLink : public Link
    {
      public:
        RankLink(World &world, WorldRank self) : world_(world), self_(self) {}
        void send(Bytes message) override
        {
            if (!world_.ranks_[self_]->dead)
                world_.tree_->from_rank(self_, message);
        }

      private:
        World &world_;
        WorldRank self_;
    };

    int upto(int n) { return int(shared_.random() % uint64_t(n)); }
    bool chance(int percent) { return upto(100) < percent; }

    void plant_tree()
    {
        auto n = uint32_t(ranks_.size());
        uint32_t daemons = 1 + uint32_t(upto(int(n)));
        std::vector<std::vector<WorldRank>> ranks_of(daemons);
        for (WorldRank r = 0; r < n; r++)
            ranks_of[size_t(upto(int(daemons)))].push_back(r);
        // A daemon without ranks or child daemons would have no rank to report for.
        std::erase_if(ranks_of, [](const auto &ranks) { return ranks.empty(); });
        tree_ = std::make_unique<TreeSim>(Topology(ranks_of, 2 + uint32_t(upto(3))),
                                          [this](WorldRank r, const Packed &bytes) {
                                              if (!ranks_[r]->dead)
                                                  ranks_[r]->message(bytes);
                                          });
        last_ready_.assign(n, {});
        tree_->filter.pass = [this](Packed &bytes, bool down, bool is_rank, WorldRank who) {
            return pass(bytes, down, is_rank, who);
        };
        if (options_.sabotage == Sabotage::links_overtake)
            tree_->filter.pick = [this](size_t waiting) { return shared_.random() % waiting; };
    }

    // Sabotages of the tree.
    bool pass(Packed &bytes, bool down, bool is_rank, WorldRank who)
    {
        Message m(MessageType::state, 0);
        if (!unpack(bytes, m))
            return true;
        shared_.report.raises += is_rank && m.type == MessageType::raise;
        shared_.report.needs += is_rank && !down && m.type == MessageType::need;
        auto lose = [&](MessageType type, Sabotage which) {
            return m.type == type && shared_.strikes(which);
        };
        if (lose(MessageType::targets, Sabotage::targets_lost) ||
            lose(MessageType::raise, Sabotage::raise_lost) ||
            (m.type == MessageType::need && options_.sabotage == Sabotage::need_lost))
            return false;
        if (!is_rank)
            return true;
        auto inject = [&](const Message &extra) {
            auto packed = pack(extra, std::pmr::get_default_resource());
            tree_->inject_up(who, Packed(packed.begin(), packed.end()));
        };
        if (!down && m.type == MessageType::ready)
            last_ready_[who] = bytes;
        if (down && options_.sabotage == Sabotage::ready_not_renewed &&
            (m.type == MessageType::targets || m.type == MessageType::need) &&
            !last_ready_[who].empty()) {
            Message old(MessageType::state, 0);
            if (unpack(last_ready_[who], old) && old.epoch == m.epoch) {
                old.acks++;
                inject(old);
                auto packed = pack(old, std::pmr::get_default_resource());
                last_ready_[who].assign(packed.begin(), packed.end());
            }
        }
        if (down && m.type == MessageType::expected &&
            options_.sabotage == Sabotage::expected_too_small) {
            for (CountEntry &e : m.counts)
                e.tally.messages -= e.tally.messages > 0;
            auto packed = pack(m, std::pmr::get_default_resource());
            bytes.assign(packed.begin(), packed.end());
        }
        if (!down && m.type == MessageType::clocks &&
            options_.sabotage == Sabotage::expected_early) {
            inject(m);
            inject(Message(MessageType::ready, m.epoch));
            return false;
        }
        if (down && m.type == MessageType::expected && options_.sabotage == Sabotage::go_early)
            inject(Message(MessageType::drained, m.epoch));
        return true;
    }

    void act()
    {
        int total = weights_[0] + weights_[1] + weights_[2] + weights_[3];
        int draw = upto(total);
        if ((draw -= weights_[0]) < 0) {
            size_t r = size_t(upto(int(ranks_.size())));
            if (chance(speeds_[r]))
                ranks_[r]->step();
        } else if ((draw -= weights_[1]) < 0) {
            if (size_t n = tree_->busy())
                tree_->deliver(shared_.random() % n);
        } else if ((draw -= weights_[2]) < 0) {
            if (size_t n = shared_.net.channels())
                shared_.net.deliver(shared_.random() % n);
        } else if (size_t n = shared_.net.transfers()) {
            shared_.net.transfer(shared_.random() % n);
        }
    }

    uint64_t progress() const
    {
        uint64_t sum = 0;
        for (const auto &r : ranks_)
            sum += r->progress();
        return sum;
    }

    bool over() const
    {
        if (tree_->busy() || tree_->root().outcome() == Node::Outcome::working)
            return false;
        bool some_dead =
            std::any_of(ranks_.begin(), ranks_.end(), [](const auto &r) { return r->dead; });
        return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto &r) {
            return r->dead || (!r->rank().pending() && (some_dead || r->finished()));
        });
    }

    void maybe_request()
    {
        if (tree_->root().outcome() == Node::Outcome::working)
            return;
        bool wanted = options_.obeys && std::exchange(tree_->wanted, false);
        if (!wanted && (asked_ >= options_.checkpoints || upto(patience_) != 0))
            return;
        asked_ += !wanted;
        if (options_.failures && chance(50))
            ranks_[size_t(upto(int(ranks_.size())))]->save_fails = true;
        judged_ = shared_.abandoned = false;
        if (!tree_->root().request())
            judged_ = true; // a rank is dead already
    }

    void maybe_kill()
    {
        if (!options_.deaths || asked_ == 0 || killed_ || upto(300) != 0)
            return;
        killed_ = true;
        auto r = WorldRank(upto(int(ranks_.size())));
        ranks_[r]->dead = true;
        tree_->lose(r);
    }

    void check_outcome()
    {
        Node::Outcome outcome = tree_->root().outcome();
        if (judged_ || outcome == Node::Outcome::working || outcome == Node::Outcome::none)
            return;
        judged_ = true;
        shared_.abandoned = outcome == Node::Outcome::abandoned;
        Report &report = shared_.report;
        report.most_rounds = std::max(report.most_rounds, tree_->root().rounds());
        if (outcome == Node::Outcome::abandoned) {
            report.abandoned++;
            if (!options_.failures && !options_.deaths && !options_.impatient)
                shared_.fault("abandoned: " + describe(tree_->root().reason()));
            return;
        }
        report.done++;
        check_cut();
        if (chance(50) && !killed_) {
            // The job is killed and restarted: the library and the tree start afresh.
            report.restarts++;
            shared_.net.restart();
            plant_tree();
            judged_ = true;
            for (const auto &r : ranks_)
                r->restart();
        }
    }

    void check_cut()
    {
        std::map<CommId, std::pair<uint64_t, WorldRank>> clocks;
        for (WorldRank r = 0; r < ranks_.size(); r++) {
            SimRank &rank = *ranks_[r];
            shared_.report.drained += rank.waiting_messages();
            if (!rank.dead && rank.rank().phase() != Rank::Phase::saved)
                shared_.fault(fmt::format("rank {} has not saved at the cut", r));
            if (rank.rank().versions().last() != ranks_[0]->rank().versions().last())
                shared_.fault(fmt::format("at the cut ranks 0 and {} are at versions {} and {}", r,
                                          ranks_[0]->rank().versions().last(),
                                          rank.rank().versions().last()));
            if (!rank.dead && rank.open_epochs())
                shared_.fault(fmt::format("rank {} has an open epoch at the cut", r));
            for (const Comm *comm : rank.comms()) {
                if (!comm)
                    continue;
                auto [at, first] = clocks.try_emplace(comm->id(), comm->clock, r);
                if (!first && at->second.first != comm->clock)
                    shared_.fault(fmt::format("at the cut ranks {} and {} differ in the "
                                              "collectives of {:x}: {} and {}",
                                              at->second.second, r, comm->id(), at->second.first,
                                              comm->clock.load()));
            }
        }
        if (std::string lost = shared_.net.lost_at_restart(); !lost.empty() && !killed_)
            shared_.fault("at the cut the library still held " + lost);
    }

    // As a coordinator does in the end: a program whose MPI_Ckpt is crossed by a message to a
    // wildcard receive continues without that version.
    bool lose_patience()
    {
        if (!options_.impatient || tree_->root().outcome() != Node::Outcome::working)
            return false;
        tree_->root().abandon({.rank = 0, .doing = Doing::needed});
        return true;
    }

    void stuck()
    {
        tree_->root().inquire();
        for (int i = 0; i < 100'000 && tree_->busy(); i++)
            tree_->deliver(0);
        for (const StateEntry &s : tree_->states)
            shared_.report.waiting.push_back(describe(s));
        std::string who;
        for (const std::string &text : shared_.report.waiting)
            who += "\n  " + text;
        for (WorldRank r = 0; r < ranks_.size(); r++)
            who += fmt::format("\n  rank {} {}", r, ranks_[r]->position());
        shared_.fault("it does not end:" + who);
    }

    Shared shared_;
    Options options_;
    std::unique_ptr<TreeSim> tree_;
    std::vector<std::unique_ptr<RankLink>> links_;
    std::vector<std::unique_ptr<SimRank>> ranks_;
    std::vector<int> speeds_;
    std::array<int, 4> weights_ = {};
    std::vector<Packed> last_ready_;
    int patience_ = 0;
    int asked_ = 0;
    bool judged_ = true;
    bool killed_ = false;
};

} // namespace

Report run(const Options &options)
{
    try {
        return World(options).run();
    } catch (const std::exception &e) {
        Report report;
        report.fault = e.what();
        return report;
    }
}

} // namespace cryo::bookmark::sim
