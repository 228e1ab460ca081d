// SPDX-License-Identifier: Apache-2.0
//
// Lost nodes and spares over several recoveries.
#include "recover/nodes.hpp"

#include <gtest/gtest.h>

namespace cryo::recover {
namespace {

using Words = std::vector<std::string>;

coord::Snapshot on(const Words &nodes, int seq = 0)
{
    coord::Snapshot snapshot;
    snapshot.seq = seq;
    for (uint32_t rank = 0; rank < nodes.size(); rank++)
        snapshot.images.push_back({.rank = rank, .node = nodes[rank]});
    return snapshot;
}

Words options(Nodes &nodes, const coord::Snapshot &snapshot)
{
    const Result<Words> words = nodes.options(snapshot, "mpirun");
    return words ? *words : Words{words.error().text()};
}

TEST(Nodes, ChangeNothingAsLongAsNoneIsLost)
{
    Nodes nodes({"n9"}, true);
    EXPECT_EQ(options(nodes, on({"n1", "n2"})), Words());
    EXPECT_EQ(nodes.told(), "");
    EXPECT_EQ(nodes.spares_left(), Words{"n9"});
}

TEST(Nodes, GiveASpareOnce)
{
    Nodes nodes({"n8", "n9"}, true);
    nodes.lose("n2");
    EXPECT_EQ(options(nodes, on({"n1", "n2"})), (Words{"--hosts", "n1:1,n8:1"}));
    EXPECT_EQ(nodes.told(), "without node n2, with spare n8: ranks go to n1:1,n8:1");
    EXPECT_EQ(nodes.spares_left(), Words{"n9"});
    nodes.came();
    // There may be no newer snapshot yet.
    EXPECT_EQ(options(nodes, on({"n1", "n2"})), (Words{"--hosts", "n1:1,n8:1"}));
    EXPECT_EQ(options(nodes, on({"n1", "n8"})), (Words{"--hosts", "n1:1,n8:1"}));
    EXPECT_EQ(nodes.told(), ""); // nothing new
    nodes.lose("n8");
    EXPECT_EQ(options(nodes, on({"n1", "n8"})), (Words{"--hosts", "n1:1,n9:1"}));
    nodes.came();
    EXPECT_EQ(nodes.spares_left(), Words());
}

TEST(Nodes, GiveASpareOnceWhateverItCallsItself)
{
    Nodes nodes({"10.0.0.8", "n9", "n10"}, true);
    nodes.lose("n2");
    EXPECT_EQ(options(nodes, on({"n1", "n2", "n3"}, 4)),
              (Words{"--hosts", "n1:1,10.0.0.8:1,n3:1"}));
    nodes.came();
    // There is no newer snapshot yet.
    EXPECT_EQ(options(nodes, on({"n1", "n2", "n3"}, 4)),
              (Words{"--hosts", "n1:1,10.0.0.8:1,n3:1"}));
    nodes.came();
    nodes.lose("n3");
    EXPECT_EQ(options(nodes, on({"n1", "n8", "n3"}, 5)), (Words{"--hosts", "n1:1,n8:1,n9:1"}));
    nodes.came();
    nodes.lose("n8");
    EXPECT_EQ(options(nodes, on({"n1", "n8", "n9"}, 6)), (Words{"--hosts", "n1:1,n10:1,n9:1"}));
    nodes.came();
    EXPECT_EQ(nodes.spares_left(), Words());
}

TEST(Nodes, TryAnotherSpareWhenARestartHasFailed)
{
    Nodes nodes({"n8", "n9"}, true);
    nodes.lose("n2");
    options(nodes, on({"n1", "n2"}));
    nodes.failed();
    EXPECT_EQ(options(nodes, on({"n1", "n2"})), (Words{"--hosts", "n1:1,n9:1"}));
    nodes.came();
    nodes.failed(); // one with which it had come back stays
    EXPECT_EQ(options(nodes, on({"n1", "n2"})), (Words{"--hosts", "n1:1,n9:1"}));
}

TEST(Nodes, PackTheOthersAndBindNothing)
{
    Nodes nodes({}, true);
    nodes.lose("n2");
    EXPECT_EQ(options(nodes, on({"n1", "n2"})),
              (Words{"--hosts", "n1:2", "--mpirun_opts", "--bind-to none"}));
    EXPECT_EQ(nodes.told(), "without node n2, as no spare is left, more than their slots on the "
                            "others: ranks go to n1:2");
}

TEST(Nodes, GiveUpWherePackingIsNotAllowed)
{
    Nodes nodes({}, false);
    nodes.lose("n2");
    EXPECT_FALSE(nodes.options(on({"n1", "n2"}), "mpirun"));
    EXPECT_EQ(nodes.lost(), Words{"n2"});
}

} // namespace
} // namespace cryo::recover
