// SPDX-License-Identifier: Apache-2.0
// Snapshots of MPI jobs at a server of images.
#include "serving.hpp"

#include "elsewhere/job_place.hpp"
#include "server/job.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <map>

namespace cryo::server {

namespace {

namespace fs = std::filesystem;

using Files = std::map<std::string, std::string>;

class JobTest : public Serving
{
  protected:
    JobTest()
    {
        serve();
        client_.emplace(connect());
    }

    // Files of a directory; those without a text cannot be opened.
    store::Contents contents_of(const Files &files, const std::string &missing = "")
    {
        store::Contents contents{.kind = store::Kind::snapshot, .name = "job.ckpt"};
        for (const auto &[name, text] : files) {
            const fs::path path = fs::path(dir_ / "job") / name;
            fs::create_directories(path.parent_path());
            std::ofstream(path) << text;
            contents.files.push_back({name, [path, gone = name == missing, reads = 0]() mutable {
                                          // A file is read once to be measured, and then to be
                                          // sent.
                                          if (gone && reads++ > 0)
                                              return Result<Fd>(Error(ENOENT, "it is gone"));
                                          return Result<Fd>(Fd(open(path.c_str(), O_RDONLY)));
                                      }});
        }
        return contents;
    }
    Result<JobAtServer> push(const store::Contents &contents)
    {
        return push_job([this] { return try_to_connect(secret()); }, "job9", contents, {});
    }
    Files pulled(const std::string &name)
    {
        const std::string directory = dir_ / name;
        const Result<JobAtServer> there = pull_job(*client_, "job9", directory, {});
        EXPECT_TRUE(there) << there.error().text();
        Files files;
        for (const auto &entry : fs::recursive_directory_iterator(directory)) {
            if (!entry.is_regular_file())
                continue;
            std::ifstream file(entry.path(), std::ios::binary);
            files[fs::relative(entry.path(), directory)] =
                std::string(std::istreambuf_iterator<char>(file), {});
        }
        return files;
    }

    std::optional<Client> client_;
    const Files first_ = {
        {"global.data", "1"}, {"1/rank0/image", long_text()}, {"1/rank1/image", ""}};
    const Files second_ = {{"global.data", "1 2"},
                           {"1/rank0/image", long_text()},
                           {"2/rank0/image", "more"},
                           {"2/rank1/image", "more"}};
};

} // namespace

TEST_F(JobTest, GoesThereAndComesBack)
{
    EXPECT_FALSE(*has_job(*client_, "job9"));
    EXPECT_EQ(ENOENT, pull_job(*client_, "job9", dir_ / "none", {}).error().code());
    const Result<JobAtServer> one = push(contents_of(first_));
    ASSERT_TRUE(one) << one.error().text();
    EXPECT_EQ(long_text().size() + 1, one->sent);
    EXPECT_TRUE(*has_job(*client_, "job9"));
    EXPECT_EQ(first_, pulled("one"));
    // What is there is not sent again, equal contents are sent once, and the rest goes.
    const Result<JobAtServer> two = push(contents_of(second_));
    ASSERT_TRUE(two) << two.error().text();
    EXPECT_EQ(7U, two->sent);
    EXPECT_EQ(4U, files().size());
    EXPECT_EQ(second_, pulled("two"));
    EXPECT_EQ(EEXIST, pull_job(*client_, "job9", dir_ / "two", {}).error().code());
}

TEST_F(JobTest, IsWhatItWasUntilAllIsThere)
{
    ASSERT_TRUE(push(contents_of(first_)));
    const Files later = {{"global.data", "1 2"},
                         {"1/rank0/image", long_text()}, // which is there, and is not read again
                         {"2/rank0/image", "one"},
                         {"2/rank1/image", "other"}};
    int tries = 0;
    for (const char *name : {"2/rank0/image", "2/rank1/image", "global.data"}) {
        const Result<JobAtServer> broken = push(contents_of(later, name));
        ASSERT_FALSE(broken) << name;
        EXPECT_EQ("it is gone", broken.error().text());
        EXPECT_EQ(first_, pulled(fmt::format("try{}", tries++)));
    }
    // What they have sent need not be sent again.
    const Result<JobAtServer> whole = push(contents_of(later));
    ASSERT_TRUE(whole) << whole.error().text();
    EXPECT_EQ(3U, whole->sent);
    EXPECT_EQ(later, pulled("whole"));
}

// The copier of a program that has ended goes on beside that of the next one.
TEST_F(JobTest, OfTwoPushesAtOnceTheFirstToCommitHasThePlace)
{
    ASSERT_TRUE(push(contents_of(first_)));
    const Files other = {{"other.data", "else"}};
    const store::Contents others = contents_of(other);
    Files more = first_;
    more["3/rank0/image"] = "new";
    store::Contents slow = contents_of(more);
    int opened = 0;
    for (store::Content &one : slow.files) {
        if (one.name != "3/rank0/image")
            continue;
        one.open = [&, open_it = one.open] {
            if (++opened == 2) { // the rest is there, and is not sent again
                EXPECT_TRUE(push(others));
            }
            return open_it();
        };
    }
    const Result<JobAtServer> refused = push(slow);
    ASSERT_FALSE(refused);
    EXPECT_EQ(EBUSY, refused.error().code());
    EXPECT_EQ(2, opened);
    EXPECT_EQ(other, pulled("one"));
    ASSERT_TRUE(push(slow));
    EXPECT_EQ(more, pulled("two"));
}

// What a push that was killed has left goes with the next one; what is being sent stays.
TEST_F(JobTest, APushRemovesOnlyWhatWasThereWhenItBegan)
{
    ASSERT_TRUE(push(contents_of(first_)));
    const auto named = [](char digit) { return ImageName{"job9", std::string(32, digit) + "-3"}; };
    const auto send = [&](char digit) {
        Client client = connect();
        EXPECT_EQ(0, put(client, named(digit), "abc", Existing::replace));
    };
    send('0');
    send('1');
    store::Contents contents = contents_of(second_);
    for (store::Content &one : contents.files) {
        if (one.name != "global.data")
            continue;
        one.open = [&, reads = 0, open_it = one.open]() mutable {
            if (reads++ == 1) { // it is sent
                send('1');
                send('2');
            }
            return open_it();
        };
    }
    ASSERT_TRUE(push(contents));
    EXPECT_FALSE(client_->find(named('0')));
    EXPECT_TRUE(client_->find(named('1')));
    EXPECT_TRUE(client_->find(named('2')));
    EXPECT_EQ(second_, pulled("one"));
    ASSERT_TRUE(push(contents_of(second_)));
    EXPECT_FALSE(client_->find(named('1')));
    EXPECT_FALSE(client_->find(named('2')));
}

TEST_F(JobTest, LeavesASeriesOfProgramsAlone)
{
    ASSERT_EQ(0, put(*client_, {"job9", "monday"}, "image"));
    const Result<JobAtServer> refused = push(contents_of(first_));
    ASSERT_FALSE(refused);
    EXPECT_EQ(EEXIST, refused.error().code());
    EXPECT_NE(std::string::npos, refused.error().text().find("name another series"));
    EXPECT_EQ(1U, files().size());
}

TEST_F(JobTest, NamesWhatIsMissing)
{
    ASSERT_TRUE(push(contents_of(first_)));
    const std::string name = checksum_of("1") + "-1";
    ASSERT_TRUE(client_->remove({"job9", name}, checksum_of("1")));
    const Result<JobAtServer> pulled = pull_job(*client_, "job9", dir_ / "one", {});
    ASSERT_FALSE(pulled);
    EXPECT_NE(std::string::npos, pulled.error().text().find("global.data"));
    for (const auto &entry : fs::directory_iterator(dir_.path()))
        EXPECT_FALSE(entry.path().filename().string().starts_with("one")) << entry.path();
    ASSERT_TRUE(push(contents_of(first_))); // which mends it
    EXPECT_EQ(first_, this->pulled("one"));
}

TEST(JobPlace, IsASeriesOrAPlaceInABucket)
{
    using elsewhere::JobPlace;
    EXPECT_FALSE(JobPlace::is_meant("/pfs/job9"));
    for (const auto &[text, whole] : {std::pair("cryo://n7/job9", "cryo://n7:12796/job9"),
                                      std::pair("cryo://n7:99/job9/", "cryo://n7:99/job9"),
                                      std::pair("s3://bucket/jobs/9/", "s3://bucket/jobs/9")}) {
        const Result<JobPlace> place = JobPlace::parse(text);
        ASSERT_TRUE(place) << place.error().text();
        EXPECT_EQ(whole, place->text());
    }
    EXPECT_EQ(ENOTSUP, JobPlace::parse("gopher://n7/job9").error().code());
    for (const char *wrong : {"cryo://n7/", "cryo://n7/a/b", "s3://bucket", "s3://B/a", "s3:///"})
        EXPECT_EQ(EINVAL, JobPlace::parse(wrong).error().code()) << wrong;
}

} // namespace cryo::server
