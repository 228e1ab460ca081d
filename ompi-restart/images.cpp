// SPDX-License-Identifier: Apache-2.0
#include "images.hpp"

#include "fetch.hpp"

#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/text.hpp"
#include "coord/heal.hpp"
#include "coord/node_copies.hpp"
#include "coord/nodes_to_ask.hpp"
#include "coord/place.hpp"

#include <cerrno>
#include <unistd.h>

using cryo::Error;
using cryo::printable;
using cryo::Result;
using cryo::Trust;
using cryo::coord::Look;
using cryo::coord::Snapshot;
using cryo::coord::SnapshotStore;
using cryo::coord::Whom;

namespace {

Result<void> heal(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                  const Options &options)
{
    std::vector<std::string> said;
    Result<void> healed = cryo::coord::heal(store, snapshot, trust,
                                            options.heal ? Look::contents : Look::sizes, said);
    for (const std::string &line : said)
        cryo::cli::say(options.command, line);
    return healed;
}

// True: some node was asked.
Result<bool> fetch_from(Whom whom, const SnapshotStore &store, const Snapshot &snapshot,
                        const Trust &trust, const Options &options)
{
    const Result<std::vector<std::string>> nodes =
        cryo::coord::nodes_to_ask(store, snapshot, trust, whom);
    if (!nodes)
        return nodes.error();
    if (!nodes->empty())
        fetch(store, snapshot, options, *nodes);
    return !nodes->empty();
}

// The nodes of a lost node's set bring much more than that node would: they are asked if it must
// be.
Result<void> fetch_and_heal(const SnapshotStore &store, const Snapshot &snapshot,
                            const Trust &trust, const Options &options)
{
    if (const Result<bool> asked = fetch_from(Whom::owners, store, snapshot, trust, options);
        !asked)
        return asked.error();
    Result<void> healed = heal(store, snapshot, trust, options);
    if (healed || snapshot.sets.empty())
        return healed;
    const Result<bool> asked = fetch_from(Whom::sets, store, snapshot, trust, options);
    return asked && *asked ? heal(store, snapshot, trust, options) : healed;
}

} // namespace

Result<void> make_whole(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
                        const Options &options)
{
    Result<void> whole = store.check(snapshot, trust);
    if (!options.heal && (whole || options.showme || snapshot.local_images() == 0))
        return whole;
    const bool fetches = options.fetch || (options.has_weights() && !options.heal);
    Result<void> healed = fetches ? fetch_and_heal(store, snapshot, trust, options)
                                  : heal(store, snapshot, trust, options);
    return healed ? store.check(store.with_ranks(snapshot), trust) : healed;
}

int bring(const SnapshotStore &store, const Snapshot &snapshot, const Trust &trust,
          const Options &options)
{
    char node[128];
    if (!cryo::coord::node_name(environ, node, sizeof(node)))
        return cryo::cli::fail(options.command,
                               Error(ENAMETOOLONG, "the name of this node is too long"));
    const Result<size_t> count = cryo::coord::bring(store, snapshot, trust, node);
    if (!count)
        return cryo::cli::fail(options.command, count.error());
    cryo::print("{} of node {}\n", cryo::cli::count_text(*count, "image", "images"),
                printable(node));
    return 0;
}
