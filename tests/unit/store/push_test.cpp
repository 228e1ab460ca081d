// SPDX-License-Identifier: Apache-2.0
// Pushes to a store in memory: two to one place at once, names that cannot be kept; and stores
// whose lists have no end.
#include "../scratch.hpp"
#include "small_store.hpp"
#include "store/claim.hpp"
#include "store/pull.hpp"
#include "store/push.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>

namespace cryo::store {

namespace {

const Location place{"bucket", "run"};
const std::string claimed = "bucket/run/pushing";
const Terms terms = {.patience = std::chrono::seconds(0)};

// One file, whenever it is opened.
Content content(const std::string &name, const std::string &text,
                const std::function<void()> &before = {})
{
    Result<Fd> made = file_of_text(text);
    if (!made)
        throw std::runtime_error(made.error().text());
    return {name, [file = std::make_shared<Fd>(std::move(*made)), before]() -> Result<Fd> {
                if (before)
                    before();
                return Fd(fcntl(file->get(), F_DUPFD_CLOEXEC, 3));
            }};
}

Contents contents_of(std::vector<Content> files)
{
    return {.kind = Kind::directory, .name = "run", .root = "", .files = std::move(files)};
}

int code_of_push(SmallStore &store, std::vector<Content> files)
{
    const Result<Pushed> pushed = push(contents_of(std::move(files)), place, store.settings(),
                                       {.patience = std::chrono::seconds(0), .connections = 1});
    return pushed ? 0 : pushed.error().code();
}

int code_of_verify(SmallStore &store)
{
    const Settings settings = store.settings();
    Client client(settings, terms);
    const Result<Manifest> manifest = Manifest::read(client, place);
    if (!manifest)
        return manifest.error().code();
    const Result<void> good =
        verify(*manifest, place, settings, {.patience = std::chrono::seconds(0)});
    return good ? 0 : good.error().code();
}

Claimant elsewhere()
{
    Claimant other = Claimant::self();
    other.host = "n7";
    other.machine = "another";
    return other;
}

int code_of_claim(SmallStore &store)
{
    const Settings settings = store.settings();
    const Result<std::unique_ptr<Claim>> claim = Claim::take(settings, place, terms);
    return claim ? 0 : claim.error().code();
}

} // namespace

// The second one would remove what the first one has found there.
TEST(Claim, OfTwoPushesAtOnceOneIsRefused)
{
    SmallStore store;
    ASSERT_EQ(0, code_of_push(store, {content("x", "former")}));
    int opened = 0;
    int other = 0;
    EXPECT_EQ(0, code_of_push(store, {content("x", "former"), content("z", "new", [&] {
                                          if (++opened == 2) // x is there, and not sent again
                                              other = code_of_push(store, {content("y", "other")});
                                      })}));
    EXPECT_EQ(2, opened);
    EXPECT_EQ(EBUSY, other);
    EXPECT_EQ(0, code_of_verify(store));
    EXPECT_EQ(0, code_of_push(store, {content("y", "other")}));
    EXPECT_EQ(0, code_of_verify(store));
    EXPECT_EQ(2U, store.keys().size()); // the manifest, and what it names
}

// Of a store that does not know conditions, the last one that wrote has the place.
TEST(Claim, APushThatHasLostItsPlaceCommitsNothing)
{
    SmallStore store;
    store.knows_conditions = false;
    ASSERT_EQ(0, code_of_push(store, {content("x", "former")}));
    EXPECT_EQ(EBUSY,
              code_of_push(store,
                           {content("z", "new", [&] { store.put(claimed, elsewhere().text()); })}));
    EXPECT_EQ(0, code_of_verify(store));
    EXPECT_EQ(EBUSY, code_of_push(store, {content("z", "new")}));
}

TEST(Claim, WhatSomebodyHasLeftCountsForAWhile)
{
    SmallStore store;
    EXPECT_EQ(0, code_of_claim(store));
    EXPECT_TRUE(store.keys().empty());
    store.put(claimed, elsewhere().text());
    EXPECT_EQ(EBUSY, code_of_claim(store));
    store.make_older(claimed, claim_holds.count() - 60);
    EXPECT_EQ(EBUSY, code_of_claim(store));
    store.make_older(claimed, 120);
    EXPECT_EQ(0, code_of_claim(store));
    store.put(claimed, "what is that?");
    EXPECT_EQ(EBUSY, code_of_claim(store));
    store.make_older(claimed, 2 * claim_holds.count());
    EXPECT_EQ(0, code_of_claim(store));
    EXPECT_TRUE(store.keys().empty());
}

TEST(Claim, OfAProcessOfThisMachineUntilItsEnd)
{
    SmallStore store;
    Claimant self = Claimant::self();
    EXPECT_FALSE(self.has_ended());
    store.put(claimed, self.text());
    EXPECT_EQ(EBUSY, code_of_claim(store));
    self.started = "1"; // an earlier process with that number
    EXPECT_TRUE(self.has_ended());
    store.put(claimed, self.text());
    EXPECT_EQ(0, code_of_claim(store));
    self.space = "pid:[1]";
    EXPECT_FALSE(self.has_ended());
    store.put(claimed, self.text());
    EXPECT_EQ(EBUSY, code_of_claim(store));
    // As another user's process that /proc hides: kill(2) finds it, but there is no such file.
    Claimant hidden = Claimant::self();
    hidden.pid = 0;
    EXPECT_FALSE(hidden.has_ended());
    hidden = Claimant::self();
    hidden.started.clear(); // it could not tell
    EXPECT_FALSE(hidden.has_ended());
}

// A server may be too busy to say that it has written what it was sent.
TEST(Claim, IsOnesOwnThoughTheAnswerWasLost)
{
    SmallStore store;
    int lost = 0;
    store.loses_answer = [&](const std::string &method, const std::string &target) {
        return method == "PUT" && target == claimed && lost++ == 0;
    };
    const Settings settings = store.settings();
    {
        const Result<std::unique_ptr<Claim>> claim =
            Claim::take(settings, place, {.patience = std::chrono::seconds(60)});
        ASSERT_TRUE(claim) << claim.error().text();
        EXPECT_EQ(2, lost); // and once more, which is refused
        EXPECT_TRUE((*claim)->check());
        // A renewal whose answer is lost is not the last one.
        lost = 0;
        (*claim)->renew();
        EXPECT_EQ(1, lost);
        store.make_older(claimed, 2 * claim_holds.count());
        (*claim)->renew();
        EXPECT_EQ(2, lost);
        EXPECT_EQ(EBUSY, code_of_claim(store));
    }
    EXPECT_TRUE(store.keys().empty());
}

// No object has a name that its contents do not have, not even for a while.
TEST(Push, AFileThatIsChangedMeanwhileIsNotSent)
{
    SmallStore store;
    int sent = 0;
    store.instead = [&](const std::string &method, const std::string &target) {
        sent += method == "PUT" && target.find("/files/") != std::string::npos ? 1 : 0;
        return std::string();
    };
    const Result<Fd> file = file_of_text("before");
    ASSERT_TRUE(file);
    int opened = 0;
    const Content changed = {"a", [&]() -> Result<Fd> {
                                 if (++opened == 2) { // it was measured
                                     EXPECT_EQ(5, pwrite(file->get(), "after", 5, 3));
                                 }
                                 return Fd(fcntl(file->get(), F_DUPFD_CLOEXEC, 3));
                             }};
    EXPECT_EQ(EAGAIN, code_of_push(store, {changed}));
    EXPECT_EQ(2, opened);
    EXPECT_EQ(0, sent);
    EXPECT_TRUE(store.keys().empty());
}

// As `latest` goes on to the next image while the last one is sent.
TEST(Push, AFileThatGetsOrLosesANameMeanwhileIsSent)
{
    SmallStore store;
    const Scratch dir;
    std::ofstream(dir / "a") << "image";
    int opened = 0;
    const Content named = {"a", [&]() -> Result<Fd> {
                               if (++opened == 2) { // it was measured
                                   std::filesystem::create_hard_link(dir / "a", dir / "latest");
                               }
                               return Fd(open((dir / "a").c_str(), O_RDONLY | O_CLOEXEC));
                           }};
    EXPECT_EQ(0, code_of_push(store, {named}));
    EXPECT_EQ(2, opened);
    EXPECT_EQ(0, code_of_verify(store));
}

// Before anything is sent.
TEST(Push, NamesThatNoListCanHaveAreRefused)
{
    SmallStore store;
    EXPECT_EQ(EINVAL, code_of_push(store, {content("good", "one"), content("a\xff", "two")}));
    EXPECT_TRUE(store.keys().empty());
}

TEST(StoreClient, ListsEnd)
{
    SmallStore store;
    uint64_t pages = 0;
    store.instead = [&](const std::string &, const std::string &target) {
        std::string page = "<ListPartsResult><IsTruncated>true</IsTruncated>";
        page += fmt::format("<NextPartNumberMarker>{}</NextPartNumberMarker>", ++pages);
        for (int i = 0; i < 1000; i++)
            page += "<Part><PartNumber>1</PartNumber><ETag>x</ETag><Size>1</Size></Part>";
        return target.find("uploadId") != std::string::npos ? page + "</ListPartsResult>" : "";
    };
    const Settings settings = store.settings();
    Client client(settings, terms);
    const Result<std::vector<StoredPart>> parts = client.parts(place, "upload");
    ASSERT_FALSE(parts);
    EXPECT_EQ(EPROTO, parts.error().code());
    EXPECT_GT(20U, pages);
}

} // namespace cryo::store
