// SPDX-License-Identifier: Apache-2.0
//
// Automatic mode: a service directory that numbers the versions of one file, keeps the signatures
// and chooses bases. The images lie wherever the caller wants them.
//
//     auto service = Service::open("/var/lib/job", Service::Use::create);
//     Result<Entry> added = (*service)->add({.file = "job.dump", .image = "job.d1"});
//
// Whatever happens during one of these calls, kill -9 and a full disk included, every version that
// was there before can be restored afterwards, and an image that appeared is known to the service.
// One process at a time changes a service directory; others wait.
#pragma once

#include "base/fd.hpp"
#include "delta/finder.hpp"
#include "image/sink.hpp"

namespace cryo::delta {

struct AddRequest {
    std::string file;
    std::string image;
    bool replace = false;  // allow replacing a file that the service does not know
    bool complete = false; // needs no other image, whatever the policy says
    std::optional<Settings> settings = {};
};

struct MergeRequest {
    uint32_t number = 0;
    std::string image = {}; // "": in place of the version's image
    uint32_t onto = 0;      // based on this version; 0: complete
    bool replace = false;
};

struct Retention {
    uint32_t keep = 1;  // newest versions
    uint32_t every = 0; // and each whose number is a multiple of this; 0: none
};

struct Pruned {
    std::vector<Entry> removed;
    std::vector<Entry> needed; // not kept by the rule, but others are based on them
};

class Service
{
  public:
    enum class Use { read, write, create };

    static Result<std::unique_ptr<Service>> open(const std::string &directory, Use use);

    const State &state() const { return state_; }
    Finder finder(std::vector<std::string> named = {}) const { return {&state_, std::move(named)}; }
    // Finds a version by its image's path, or by its number in digits.
    Result<Entry> find(const std::string &what) const;

    Result<Entry> add(const AddRequest &request, const Progress &progress = {});
    Result<Entry> merge(const MergeRequest &request, const Progress &progress = {});
    Result<Pruned> prune(const Retention &retention, bool dry_run);

  private:
    explicit Service(std::string directory) : directory_(std::move(directory)) {}

    Result<void> lock(Use use);
    Result<void> settle(bool may_write);
    Result<bool> adopt(Entry pending);
    Result<void> finish_removal();
    void sweep() const;

    Result<uint32_t> images_of(const Digest &image) const;
    Result<std::unique_ptr<Version>> open_base(const Digest &image) const;
    Result<void> check_target(const std::string &path, bool replace) const;
    Result<Signature> signature_of(Version &version) const;
    void advance(const Entry &entry, Signature now);
    void supersede(const Entry &entry);
    Result<Entry> publish(Entry entry, ByteSource &source, VersionPlan plan, bool replace,
                          const Progress &progress);
    Result<void> record();

    std::string directory_;
    // The users whose state files are accepted; null for readers, which remove nothing.
    std::shared_ptr<const Trust> trust_;
    Fd lock_;
    State state_;
};

} // namespace cryo::delta
