// SPDX-License-Identifier: Apache-2.0
// Snapshot directories damaged at random, and checkpoints into them: foreign files remain, and so
// does every finished snapshot that was not to be removed.
//
// CRYO_SEED sets the first seed; with CRYO_SOAK there are 10,000.
#include "store.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>; // paths below the base, with contents

uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != nullptr ? strtoull(text, nullptr, 10) : otherwise;
}

// In memory if possible: nothing has to survive this test.
std::string fast_place()
{
    return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : fs::temp_directory_path().string();
}

class Damaged
{
  public:
    explicit Damaged(uint64_t seed) : random_(seed) {}

    void run()
    {
        const auto count = 1 + pick(4);
        for (size_t i = 0; i < count; i++)
            ASSERT_TRUE(store_.save());
        for (size_t i = pick(3); i > 0; i--)
            leave_a_death();
        for (size_t i = pick(5); i > 0; i--)
            put_foreign();
        // First, because damage may hit finished snapshots as well; those need not be kept.
        for (size_t i = pick(3); i > 0; i--)
            damage();
        const Files finished = files_of_finished();
        for (size_t i = 1 + pick(3); i > 0; i--) {
            const bool readable = bool(SnapshotStore::open(store_.top()));
            const unsigned keep = pick(3) == 0 ? 1 + static_cast<unsigned>(pick(2)) : 0;
            asked_to_remove_ = asked_to_remove_ || (keep > 0 && readable);
            const Result<void> saved = store_.save(keep);
            if (saved)
                made_++;
            note(readable ? "readable" : "unreadable", keep, saved);
            check(finished, readable);
        }
    }
    const std::string &story() const { return story_; }
    size_t made() const { return made_; }

  private:
    size_t pick(size_t below) { return random_() % below; }
    template <class T>
    const T &one_of(const std::vector<T> &all)
    {
        return all[pick(all.size())];
    }
    void note(const std::string &what, unsigned keep, const Result<void> &saved)
    {
        story_ += what + ", keep " + std::to_string(keep) + ": " +
                  (saved ? "saved" : saved.error().text()) + "\n";
    }

    void leave_a_death()
    {
        Result<SnapshotWriter> writer = store_.begin();
        if (!writer)
            return;
        Store::put_images(*writer);
        const fs::path made = writer->directory();
        if (pick(2) == 0)
            fs::remove_all(made / rank_directory(0));
        if (pick(4) == 0)
            fs::remove(made / ".cryo-snapshot");
        const fs::path copy = store_.at("copy");
        fs::copy(store_.top(), copy, fs::copy_options::recursive);
        {
            const SnapshotWriter gone = std::move(*writer);
        }
        fs::remove_all(store_.top());
        fs::rename(copy, store_.top());
        story_ += "a death at " + made.filename().string() + "\n";
    }

    // Foreign files, with names like Cryo's.
    void put_foreign()
    {
        std::vector<std::string> places = {"",     "0/",      "1/",
                                           "100/", ".1.tmp/", ".7.tmp/",
                                           "5/",   "case/0/", "0/opal_snapshot_0.ckpt/"};
        const std::vector<std::string> names = {
            "U", "notes", ".hidden", "3", "token.old", "snapshot_meta.data.old", ".x.tmp"};
        const std::string name = std::string(reference) + "/" + one_of(places) + one_of(names);
        std::error_code taken;
        if (fs::exists(store_.at(name), taken) || taken)
            return;
        fs::create_directories(store_.at(name).parent_path(), taken);
        if (taken)
            return;
        store_.write(name, "mine");
        foreign_[name] = "mine";
        story_ += "foreign " + name + "\n";
    }

    void damage()
    {
        const fs::path file = store_.top() / meta;
        const std::string name = std::string(reference) + "/" + meta;
        const std::string text = fs::is_regular_file(file) ? store_.read(name) : "";
        const std::string seq = std::to_string(pick(4));
        std::error_code ignored;
        const size_t kind = pick(10);
        story_ += "damage " + std::to_string(kind) + " at " + seq + "\n";
        switch (kind) {
        case 0:
            store_.write(name, text.substr(0, text.empty() ? 0 : pick(text.size())));
            break;
        case 1:
            if (!text.empty()) {
                std::string changed = text;
                changed[pick(text.size())] ^= static_cast<char>(1 << pick(7));
                store_.write(name, changed);
            }
            break;
        case 2:
            fs::remove_all(file);
            break;
        case 3:
            fs::remove_all(file);
            fs::create_directory(file);
            break;
        case 4:
            fs::remove_all(file);
            fs::create_symlink(store_.at("elsewhere"), file);
            break;
        case 5:
            fs::remove(store_.top() / seq / ".cryo-snapshot", ignored);
            break;
        case 6: // the mark of another snapshot
            fs::copy_file(store_.top() / "0" / ".cryo-snapshot",
                          store_.top() / seq / ".cryo-snapshot",
                          fs::copy_options::overwrite_existing, ignored);
            break;
        case 7: // a user keeps a copy
            if (!fs::exists(store_.top() / "50") && fs::is_directory(store_.top() / "0")) {
                fs::copy(store_.top() / "0", store_.top() / "50", fs::copy_options::recursive);
                const std::string image = std::string(reference) + "/50/opal_snapshot_0.ckpt/"
                                                                   "cryo_context.500";
                if (fs::exists(store_.at(image)))
                    foreign_[image] = store_.read(image);
            }
            break;
        case 8: // a user moves it away, and leaves a link
            if (!fs::exists(store_.at("moved")) && fs::is_directory(store_.top() / seq) &&
                !has_foreign(seq)) {
                fs::rename(store_.top() / seq, store_.at("moved"));
                fs::create_directory_symlink(store_.at("moved"), store_.top() / seq);
                const std::string image = "moved/opal_snapshot_0.ckpt/cryo_context.500";
                if (fs::exists(store_.at(image)))
                    foreign_[image] = store_.read(image);
            }
            break;
        default:
            if (!fs::is_symlink(store_.top() / seq)) // a moved directory belongs to the user
                fs::remove(store_.top() / seq / rank_directory(0) / image_name(500), ignored);
            break;
        }
    }

    bool has_foreign(const std::string &seq) const
    {
        const std::string before = std::string(reference) + "/" + seq + "/";
        return std::ranges::any_of(foreign_,
                                   [&](const auto &one) { return one.first.starts_with(before); });
    }

    // The finished snapshots in the directory, whatever the metadata say.
    Files files_of_finished() const
    {
        Files files;
        for (const std::string &name : store_.everything()) {
            const std::string before = std::string(reference) + "/";
            if (!name.starts_with(before) || name.find("/cryo_context.") == std::string::npos ||
                name.starts_with(before + "."))
                continue;
            files[name] = store_.read(name);
        }
        return files;
    }

    void check(const Files &finished, bool readable)
    {
        for (const auto &[name, text] : foreign_)
            ASSERT_EQ(store_.read(name), text) << name;
        size_t lost = 0;
        for (const auto &[name, text] : finished) {
            if (store_.read(name) != text)
                lost++;
        }
        // Only --keep removes snapshots, and only by metadata that it could read.
        const bool may_remove = asked_to_remove_ && readable;
        ASSERT_TRUE(may_remove || lost == 0) << lost;
        // The last one is never removed.
        ASSERT_TRUE(made_ == 0 || !store_.finished().empty());
    }

    std::mt19937_64 random_;
    Store store_{fast_place()};
    Files foreign_;
    std::string story_;
    size_t made_ = 0;
    bool asked_to_remove_ = false;
};

TEST(DamagedSnapshots, NothingIsLost)
{
    const uint64_t seed = from_environment("CRYO_SEED", 1);
    const uint64_t count = getenv("CRYO_SOAK") != nullptr ? 10'000 : 2000;
    size_t made = 0;
    for (uint64_t i = 0; i < count; i++) {
        Damaged directory(seed + i);
        directory.run();
        made += directory.made();
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "CRYO_SEED=" << seed + i << "\n"
                                                       << directory.story();
    }
    // Most of the directories can still be used.
    EXPECT_GT(made, count / 2);
    EXPECT_LT(made, count * 3);
}

} // namespace

} // namespace cryo::coord
