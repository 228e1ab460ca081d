// SPDX-License-Identifier: Apache-2.0
//
// One simulated rank: the wrappers around a simulated MPI library, and the program above them.
#pragma once

#include <memory>

#include "bookmark/rank.hpp"
#include "world.hpp"

namespace cryo::bookmark::sim {

// State shared by all ranks of a run.
struct Shared {
    const Program &program;
    Net net;
    std::mt19937_64 random;
    Sabotage sabotage = Sabotage::none;
    bool obeys = false;
    bool abandoned = false; // the checkpoint: the images saved now are not used
    Report report;
    uint64_t next_receive = 1; // ordinals of the program's receives, for the reference

    explicit Shared(const Options &options)
        : program(*options.program), random(options.seed), sabotage(options.sabotage),
          obeys(options.obeys)
    {}
    void fault(const std::string &what)
    {
        if (report.fault.empty())
            report.fault = what;
    }
    // A sabotage strikes only sometimes, so that the run makes progress.
    bool strikes(Sabotage which) { return sabotage == which && random() % 4 == 0; }
};

struct Request : Receive { // the contents of a wrapper's request object
    uint64_t number = 0;   // for the reference
    uint64_t payload = 0;
    uint64_t send = 0;
    uint64_t collective = 0; // its ordinal
    Matched matched;
};

class SimMpi : public Mpi
{
  public:
    SimMpi(Shared &shared, WorldRank self) : shared_(shared), self_(self) {}
    void post(Receive &r) override;
    bool test(Receive &r, Arrival &arrival) override;
    Withdrawal withdraw(Receive &r, Arrival &arrival) override;
    bool probe(Comm &comm, int source, int tag, Arrival &arrival) override;
    bool mprobe(Comm &comm, int source, int tag, Matched &matched) override;
    void receive_matched(Matched &matched, Receive &r) override;
    bool take(Comm &comm, Drained &message) override;
    void take_matched(Matched &matched, Drained &message) override;
    bool taken(Drained &message) override;
    void deliver(Receive &r, const Drained &message) override;
    bool settled(bool /*at_cut*/) override { return shared_.net.settled(self_); }

  private:
    Shared &shared_;
    WorldRank self_;
    std::vector<Receive *> posted_; // for the sabotages of the order
};

class SimRank
{
  public:
    SimRank(Shared &shared, WorldRank self, Link &link);

    void step();
    void message(const std::vector<uint8_t> &bytes); // from the tree
    void restart() { rank_.restarted(); }

    bool finished() const { return at_ == ops_.size(); }
    bool dead = false;
    bool save_fails = false;
    uint64_t digest() const { return digest_ ^ sum_; }
    uint64_t progress() const { return progress_; } // changes whenever something happens
    Rank &rank() { return rank_; }
    std::string position() const; // for diagnostics: which operation, of what kind
    uint64_t waiting_messages() const;
    int open_epochs() const { return epochs_; }
    const std::vector<Comm *> &comms() const { return comms_; }

  private:
    bool execute(const Op &op); // true: the op is over
    Comm &comm(const Op &op) { return *comms_[size_t(op.comm)]; }
    Request &slot(const Op &op) { return slots_[op.slot]; }
    void begin_send(const Op &op, Request &request);
    void begin_receive(const Op &op, Request &request);
    bool end_receive(const Op &op, Request &request);
    bool wait_for(const Op &op, bool done);
    bool matched_probe(const Op &op);
    bool collective(const Op &op);
    bool ckpt();
    bool probe_and_receive(const Op &op);
    void make_comms(const Op &op, uint64_t ordinal);
    void got(const Op &op, const Request &request);
    int source(const Op &op);
    void stop_or_save();

    Shared &shared_;
    WorldRank self_;
    const std::vector<Op> &ops_;
    SimMpi mpi_;
    Rank rank_;
    std::vector<Comm *> comms_;           // by the program's index; null before and after its life
    std::map<int, uint64_t> collectives_; // ordinals, by the program's index of the communicator
    std::map<int, Request> slots_;
    Request here_; // the request of the blocking call
    std::vector<std::vector<uint8_t>> unheard_;
    size_t at_ = 0;
    int phase_ = 0;
    int computing_ = 0;
    int epochs_ = 0;
    int saving_ = -1;
    uint64_t version_ = 0;
    uint64_t sends_ = 0;
    uint64_t digest_ = 0;
    uint64_t sum_ = 0;
    uint64_t progress_ = 0;
};

} // namespace cryo::bookmark::sim
