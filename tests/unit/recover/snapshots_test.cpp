// SPDX-License-Identifier: Apache-2.0
//
// From which snapshots a job comes back: its own ones, that are finished.
#include "recover/snapshots.hpp"

#include "../coord/store.hpp"

#include <cerrno>

namespace cryo::recover {
namespace {

using coord::Store;
constexpr const char *own = keeper::reference_name;

std::vector<Image> images_of(const Store &store, const std::string &series)
{
    const Result<Snapshots> there = Snapshots::take(store.base(), series, 0);
    EXPECT_TRUE(there);
    return there ? there->offer().images : std::vector<Image>();
}

} // namespace

TEST(SnapshotsOfAJob, AreThoseOfItsSeries)
{
    const Store store;
    EXPECT_TRUE(images_of(store, "s1").empty());
    ASSERT_TRUE(store.save(0, own, "412-0", "s1"));
    ASSERT_TRUE(store.save(0, own, "413-0", "s1"));
    ASSERT_TRUE(store.save(0, own, "99-0"));       // by `ompi-checkpoint --where ... --name ...`
    ASSERT_TRUE(store.save(0, own, "98-0", "s2")); // of another supervisor
    EXPECT_EQ(images_of(store, "s1"), (std::vector<Image>{{"0", 1}, {"1", 2}}));
    EXPECT_EQ(images_of(store, "s2"), (std::vector<Image>{{"3", 4}}));
    const Result<Snapshots> there = Snapshots::take(store.base(), "s1", 0);
    EXPECT_EQ(there->offer().made, 4U);
}

TEST(SnapshotsOfAJob, AreNotLookedAtWhileOneIsMade)
{
    const Store store;
    ASSERT_TRUE(store.save(0, own, "412-0", "s1"));
    {
        const Result<coord::SnapshotWriter> made = store.begin(own, "412-0", "s1");
        ASSERT_TRUE(made);
        EXPECT_EQ(Snapshots::take(store.base(), "s1", 0).error().code(), EBUSY);
    }
    Result<Snapshots> there = Snapshots::take(store.base(), "s1", 0);
    ASSERT_TRUE(there);
    EXPECT_FALSE(store.begin(own, "412-0", "s1")); // nor is one made then
    ASSERT_TRUE(there->abandon("0"));
    EXPECT_TRUE(there->offer().images.empty());
    EXPECT_FALSE(there->abandon("0"));
}

} // namespace cryo::recover
