// SPDX-License-Identifier: Apache-2.0
//
// The state of a service directory: settings, numbering, the images it knows and where they are,
// and two signatures: of the base and of the newest version. One image, DIR/state, replaced as a
// whole; beside it DIR/pending while an image is about to appear, and DIR/lock.
//
//     Result<State> state = State::load(dir);
//     ...
//     state->save(dir);
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/trust.hpp"
#include "delta/adaptive.hpp"
#include "delta/signature.hpp"
#include "image/codec.hpp"

namespace cryo::delta {

// An image that the service knows.
struct Entry {
    uint32_t number = 0;
    Digest id = {};
    Digest checksum = {};
    Digest base_id = {};  // zero: complete
    Digest replaces = {}; // image of the same version that this one replaces
    uint32_t base_number = 0;
    image::DeltaState state = {};
    std::string path = {}; // absolute
    uint64_t size = 0;
    uint64_t stored = 0;
    uint64_t blocks = 0;
    uint64_t changed = 0;
    int64_t created = 0;
};

struct Settings {
    Policy policy;
    uint32_t block_size = kDefaultBlock;
    uint32_t package_blocks = image::kMaxPackageBlocks;
    image::Packing packing = image::Packing::smallest;
};

// A version whose signature is kept.
struct Known {
    Digest image; // zero: there is none
    Signature signature;
};

struct State {
    Digest series;
    uint32_t next = 1;
    Settings settings;
    Known base;
    Known previous;             // the newest version
    std::vector<Entry> entries; // in the order they came

    // ENOENT: the directory has no state yet. `trust`: the users who may own the file; null: any
    // user.
    static Result<State> load(const std::string &directory,
                              const std::shared_ptr<const Trust> &trust = {});
    Result<void> save(const std::string &directory) const;

    const Entry *by_id(const Digest &id) const;
    Entry *by_id(const Digest &id);
    // The image that holds a version now; nullptr if there is none.
    const Entry *by_number(uint32_t number) const;
    const Entry *by_path(const std::string &path) const;
    // Images that are needed for this one, itself first. Ends early at an unknown one.
    std::vector<const Entry *> chain(const Entry &entry) const;
    // Images based on this one.
    std::vector<const Entry *> based_on(const Digest &id) const;
};

// DIR/pending: the image that is about to appear under its name.
Result<void> save_pending(const std::string &directory, const Entry &entry);
Result<std::optional<Entry>> load_pending(const std::string &directory,
                                          const std::shared_ptr<const Trust> &trust = {});

std::string state_path(const std::string &directory);
std::string pending_path(const std::string &directory);

} // namespace cryo::delta
