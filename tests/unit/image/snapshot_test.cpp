// SPDX-License-Identifier: Apache-2.0
//
// Archives, directories, and images that are based on others.
#include <fcntl.h>
#include <filesystem>
#include <random>

#include "image/snapshot.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

std::unique_ptr<Sink> file(const std::string &path)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    EXPECT_TRUE(sink) << sink.error().text();
    return std::move(*sink);
}

void write_archive(const std::string &path, const std::vector<Model> &models)
{
    ArchiveWriter archive(file(path));
    for (size_t i = 0; i < models.size(); i++) {
        auto writer = archive.begin_member({.packing = i % 2 ? Packing::lz4 : Packing::raw});
        ASSERT_TRUE(writer);
        feed_model(**writer, models[i], i);
        auto done = archive.end_member(**writer, {.pid = uint32_t(100 + i), .comm = "member"});
        ASSERT_TRUE(done) << done.error().text();
    }
    archive.add_without_image({.state = MemberState::zombie, .pid = 99, .wait_status = 256});
    auto done = archive.commit({.scope = Scope::tree, .root_pid = 100});
    ASSERT_TRUE(done) << done.error().text();
}

std::vector<Model> some_models()
{
    std::vector<Model> models;
    for (uint64_t seed = 1; seed <= 4; seed++)
        models.push_back(Model::random(seed, 300));
    return models;
}

TEST(Archive, MembersComeBack)
{
    Scratch dir;
    std::vector<Model> models = some_models();
    write_archive(dir / "archive", models);
    for (Access access : {Access::pread, Access::map}) {
        auto snapshot = Snapshot::open(dir / "archive", {.access = access});
        ASSERT_TRUE(snapshot) << snapshot.error().text();
        EXPECT_FALSE((*snapshot)->is_plain());
        EXPECT_FALSE((*snapshot)->is_directory());
        EXPECT_EQ((*snapshot)->root_pid(), 100u);
        ASSERT_EQ((*snapshot)->members().size(), 5u);
        for (size_t i = 0; i < 4; i++) {
            const SnapshotMember &m = (*snapshot)->members()[i];
            EXPECT_EQ(m.pid, 100 + i);
            EXPECT_EQ(m.comm, "member");
            auto image = (*snapshot)->open_member(m);
            ASSERT_TRUE(image) << image.error().text();
            EXPECT_TRUE((*image)->verify().empty());
            EXPECT_EQ(to_model(**image), models[i]);
        }
        const SnapshotMember &zombie = (*snapshot)->members()[4];
        EXPECT_EQ(zombie.state, MemberState::zombie);
        EXPECT_EQ(zombie.wait_status, 256);
        EXPECT_FALSE((*snapshot)->open_member(zombie));
    }
}

TEST(Archive, CopyHasTheSameMembersAndAnotherRoot)
{
    Scratch dir;
    std::vector<Model> models = some_models();
    write_archive(dir / "archive", models);
    const Fd from(open((dir / "archive").c_str(), O_RDONLY | O_CLOEXEC));
    auto copied =
        copy_snapshot(from, "archive", file(dir / "copy"), {.scope = Scope::tree, .root_pid = 102});
    ASSERT_TRUE(copied) << copied.error().text();
    auto original = Snapshot::open(dir / "archive");
    auto copy = Snapshot::open(dir / "copy");
    ASSERT_TRUE(original && copy) << copy.error().text();
    EXPECT_EQ((*copy)->root_pid(), 102u);
    ASSERT_EQ((*copy)->members().size(), 5u);
    for (size_t i = 0; i < 5; i++) {
        const SnapshotMember &one = (*copy)->members()[i];
        const SnapshotMember &other = (*original)->members()[i];
        EXPECT_EQ(one.pid, other.pid);
        EXPECT_EQ(one.comm, other.comm);
        EXPECT_EQ(one.state, other.state);
        EXPECT_EQ(one.wait_status, other.wait_status);
        if (one.state != MemberState::saved)
            continue;
        auto image = (*copy)->open_member(one);
        ASSERT_TRUE(image) << image.error().text();
        EXPECT_TRUE((*image)->verify().empty());
        EXPECT_EQ(to_model(**image), models[i]);
    }
}

TEST(Archive, CopyWithoutItsRootIsRefused)
{
    Scratch dir;
    write_archive(dir / "archive", some_models());
    const Fd from(open((dir / "archive").c_str(), O_RDONLY | O_CLOEXEC));
    auto copied = copy_snapshot(from, "archive", file(dir / "copy"),
                                {.scope = Scope::process, .root_pid = 7});
    ASSERT_FALSE(copied);
    EXPECT_EQ(copied.error().code(), ESRCH);
    EXPECT_NE(access((dir / "copy").c_str(), F_OK), 0);
}

TEST(Archive, IsReadableAsAStream)
{
    Scratch dir;
    write_archive(dir / "archive", some_models());
    Fd fd(open((dir / "archive").c_str(), O_RDONLY | O_CLOEXEC));
    StreamReader reader(fd.get(), "archive");
    size_t images = 0;
    size_t members = 0;
    for (;;) {
        auto item = reader.next();
        ASSERT_TRUE(item) << item.error().text();
        if (item->kind == StreamItem::Kind::end_of_stream)
            break;
        images += item->kind == StreamItem::Kind::committed;
        members +=
            item->kind == StreamItem::Kind::record && item->record.type == RecordType::member;
    }
    EXPECT_EQ(images, 5u);
    EXPECT_EQ(members, 5u);
    EXPECT_EQ(reader.header().role, Role::tree);
}

// Mappable pages of a member are at their offsets in the archive.
TEST(Archive, PagesOfMembersCanBeMapped)
{
    constexpr uint64_t pages = 100;
    Scratch dir;
    std::mt19937_64 r(1);
    std::vector<std::vector<uint8_t>> contents;
    ArchiveWriter archive(file(dir / "archive"));
    for (uint32_t i = 0; i < 3; i++) {
        std::vector<uint8_t> &bytes = contents.emplace_back(pages * kPageSize);
        for (size_t at = 0; at < bytes.size(); at += 64) // compressible, but not zero
            store_le(bytes.data() + at, uint64_t(r()));
        auto writer = archive.begin_member({.packing = i == 1 ? Packing::lz4 : Packing::raw});
        ASSERT_TRUE((*writer)->add(Rlimit{.resource = i}));
        ASSERT_TRUE((*writer)->add_pages(0, 0, bytes));
        ASSERT_TRUE(archive.end_member(**writer, {.pid = i}));
    }
    ASSERT_TRUE(archive.commit({}));
    std::vector<uint8_t> whole = slurp(dir / "archive");
    auto snapshot = Snapshot::open(dir / "archive");
    ASSERT_TRUE(snapshot) << snapshot.error().text();
    for (uint32_t i = 0; i < 3; i++) {
        auto image = (*snapshot)->open_member((*snapshot)->members()[i]);
        ASSERT_TRUE(image);
        for (uint64_t page : {0, 63, 64, 99, 100}) {
            auto place = (*image)->mappable(0, page);
            ASSERT_TRUE(place);
            ASSERT_EQ(place->count, i == 1 ? 0 : pages - page);
            EXPECT_EQ(place->file_offset % kPageSize, 0u);
            if (place->count) {
                EXPECT_EQ(memcmp(contents[i].data() + page * kPageSize,
                                 whole.data() + place->file_offset, place->count * kPageSize),
                          0);
            }
        }
    }
}

TEST(Archive, TruncatedAtEveryPageIsRefused)
{
    Scratch dir;
    write_archive(dir / "archive", {Model::random(1, 30), Model::random(2, 30)});
    std::vector<uint8_t> whole = slurp(dir / "archive");
    for (size_t size = 0; size < whole.size(); size += 512) {
        spew(dir / "cut", Bytes(whole).first(size));
        // The rest may end with whole members, and even begin with one.
        EXPECT_FALSE(Snapshot::open(dir / "cut")) << size;
        EXPECT_NE(error_of_stream(dir / "cut"), "") << size;
    }
}

TEST(Archive, PlainImageIsASnapshotOfOne)
{
    Scratch dir;
    auto writer = ImageWriter::create(file(dir / "image"));
    ASSERT_TRUE((*writer)->add(Process{.pid = 412, .ppid = 1, .comm = "one"}));
    ASSERT_TRUE((*writer)->commit());
    auto snapshot = Snapshot::open(dir / "image");
    ASSERT_TRUE(snapshot) << snapshot.error().text();
    EXPECT_TRUE((*snapshot)->is_plain());
    ASSERT_EQ((*snapshot)->members().size(), 1u);
    EXPECT_EQ((*snapshot)->members()[0].pid, 412u);
    EXPECT_EQ((*snapshot)->members()[0].comm, "one");
    const Fd from(open((dir / "image").c_str(), O_RDONLY | O_CLOEXEC));
    auto copied =
        copy_snapshot(from, "image", file(dir / "copy"), {.scope = Scope::tree, .root_pid = 412});
    ASSERT_TRUE(copied) << copied.error().text();
    EXPECT_EQ(slurp(dir / "copy"), slurp(dir / "image"));
    EXPECT_TRUE((*snapshot)->open_member((*snapshot)->members()[0]));
}

// Three generations, each with a page of its own; `wrong`: the last names its base by another
// checksum.
void write_forks(const std::string &path, std::vector<PageBytes> &truth, bool wrong = false)
{
    std::mt19937_64 random(7);
    truth.clear();
    for (int i = 0; i < 8; i++)
        truth.push_back(random_page(random));
    ArchiveWriter archive(file(path));
    std::optional<BaseImage> base;
    for (uint64_t number = 0; number < 3; number++) {
        auto writer = archive.begin_member({.base = base});
        ASSERT_TRUE(writer);
        if (base)
            truth[number] = random_page(random);
        for (uint64_t page = 0; page < truth.size(); page++) {
            if (!base || page == number) {
                ASSERT_TRUE((*writer)->add_pages(1, page, truth[page]));
            } else {
                ASSERT_TRUE((*writer)->add_base(1, page, 1, page));
            }
        }
        auto done = archive.end_member(**writer, {.pid = uint32_t(100 + number)});
        ASSERT_TRUE(done) << done.error().text();
        base = {done->id, wrong ? done->id : done->checksum};
    }
    ASSERT_TRUE(archive.commit({.scope = Scope::tree, .root_pid = 100}));
}

// No other image is given.
TEST(Archive, ImageOfAForkIsBasedOnItsParents)
{
    Scratch dir;
    std::vector<PageBytes> truth;
    write_forks(dir / "archive", truth);
    std::filesystem::create_directory(dir / "elsewhere");
    std::filesystem::rename(dir / "archive", dir / "elsewhere/archive");
    for (const bool by_name : {true, false}) {
        const std::string path = dir / "elsewhere/archive";
        auto snapshot = by_name ? Snapshot::open(path)
                                : Snapshot::open(Fd(open(path.c_str(), O_RDONLY)), "a stream");
        ASSERT_TRUE(snapshot) << snapshot.error().text();
        auto image = (*snapshot)->open_member((*snapshot)->members()[2]);
        ASSERT_TRUE(image) << image.error().text();
        EXPECT_TRUE((*image)->verify().empty());
        auto chain = (*image)->chain();
        ASSERT_TRUE(chain) << chain.error().text();
        EXPECT_EQ(chain->size(), 3u);
        for (uint64_t page = 0; page < truth.size(); page++) {
            PageBytes got;
            ASSERT_TRUE((*image)->read_pages(1, page, got));
            EXPECT_EQ(got, truth[page]) << page;
        }
    }
}

TEST(Archive, AnotherImageInThePlaceOfAParentsIsRefused)
{
    Scratch dir;
    std::vector<PageBytes> truth;
    write_forks(dir / "archive", truth, true);
    auto snapshot = Snapshot::open(dir / "archive");
    ASSERT_TRUE(snapshot) << snapshot.error().text();
    auto image = (*snapshot)->open_member((*snapshot)->members()[2]);
    ASSERT_FALSE(image);
    EXPECT_EQ(image.error().code(), ESTALE);
}

TEST(Directory, ImagesAreFilesOfTheirOwn)
{
    Scratch dir;
    std::vector<Model> models = some_models();
    std::vector<std::string> names = {"a", "b", "c", "d"};
    std::vector<Member> members;
    for (size_t i = 0; i < models.size(); i++) {
        Committed c = write_image(dir / names[i], models[i]);
        members.push_back({.name = names[i],
                           .length = c.size,
                           .image_id = c.id.bytes(),
                           .checksum = c.checksum.bytes(),
                           .pid = uint32_t(i + 1)});
    }
    ASSERT_TRUE(write_tree(file(dir / kTreeFile), {.root_pid = 1}, members));
    auto snapshot = Snapshot::open(dir.path().string());
    ASSERT_TRUE(snapshot) << snapshot.error().text();
    EXPECT_TRUE((*snapshot)->is_directory());
    for (size_t i = 0; i < models.size(); i++) {
        auto image = (*snapshot)->open_member((*snapshot)->members()[i]);
        ASSERT_TRUE(image) << image.error().text();
        EXPECT_EQ(to_model(**image), models[i]);
    }
    // Another image under the name of a member is not taken for it.
    write_image(dir / "b", models[0]);
    auto swapped = (*snapshot)->open_member((*snapshot)->members()[1]);
    ASSERT_FALSE(swapped);
    EXPECT_EQ(swapped.error().code(), ESTALE);

    for (const char *name : {"../a", "", ".", "..", "x/y"}) {
        members[0].name = name;
        ASSERT_TRUE(write_tree(file(dir / kTreeFile), {.root_pid = 1}, members));
        EXPECT_FALSE(Snapshot::open(dir.path().string())) << name;
    }
}

// Three images, each based on the one before: reading the last gives all pages.
class Deltas : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::mt19937_64 r(21);
        for (uint64_t i = 0; i < 200; i++)
            truth_[i] = random_page(r);
        BaseImage base;
        for (int generation = 0; generation < 3; generation++) {
            auto options = WriterOptions{.packing = generation ? Packing::lz4 : Packing::raw};
            if (generation)
                options.base = base;
            auto writer = ImageWriter::create(file(path(generation)), options);
            ASSERT_TRUE(writer);
            if (generation)
                change(**writer, r);
            else
                for (const auto &[page, bytes] : truth_)
                    ASSERT_TRUE((*writer)->add_pages(0, page, bytes));
            auto done = (*writer)->commit();
            ASSERT_TRUE(done) << done.error().text();
            base = {done->id, done->checksum};
            last_ = base;
            ids_[done->id] = path(generation);
        }
    }

    // Some pages change, some are cleared, some move; the rest stay as before.
    void change(ImageWriter &writer, std::mt19937_64 &r)
    {
        std::map<uint64_t, PageBytes> next;
        for (const auto &[page, bytes] : truth_) {
            switch (r() % 6) {
            case 0:
                next[page] = random_page(r);
                ASSERT_TRUE(writer.add_pages(0, page, next[page]));
                break;
            case 1:
                next[page] = {};
                ASSERT_TRUE(writer.add_zero(0, page, 1));
                break;
            case 2:
                next[page + 1000] = bytes;
                ASSERT_TRUE(writer.add_base(0, page + 1000, 1, page));
                break;
            default:
                next[page] = bytes;
                ASSERT_TRUE(writer.add_base(0, page, 1, page));
            }
        }
        truth_ = next;
    }

    FindBase resolver()
    {
        return [this](const Digest &id) -> Result<std::shared_ptr<Image>> {
            auto at = ids_.find(id);
            if (at == ids_.end())
                return std::shared_ptr<Image>();
            auto image = Image::open(at->second);
            if (!image)
                return image.error();
            return std::shared_ptr<Image>(std::move(*image));
        };
    }

    std::string path(int generation) { return dir_ / ("image." + std::to_string(generation)); }

    Scratch dir_;
    std::map<uint64_t, PageBytes> truth_;
    std::map<Digest, std::string> ids_;
    BaseImage last_;
};

TEST_F(Deltas, ChainOfThree)
{
    auto image = Image::open(path(2), {.find_base = resolver()});
    ASSERT_TRUE(image) << image.error().text();
    EXPECT_TRUE((*image)->verify().empty());
    for (const auto &[page, bytes] : truth_) {
        PageBytes got;
        auto ok = (*image)->read_pages(0, page, got);
        ASSERT_TRUE(ok) << ok.error().text();
        EXPECT_EQ(got, bytes) << page;
    }
    // All at once, including the gaps between.
    std::vector<uint8_t> all(4000 * kPageSize);
    ASSERT_TRUE((*image)->read_pages(0, 0, all));
    for (uint64_t page = 0; page < 4000; page++) {
        PageBytes expected{};
        if (truth_.contains(page))
            expected = truth_[page];
        ASSERT_TRUE(
            std::equal(expected.begin(), expected.end(), all.begin() + long(page * kPageSize)))
            << page;
    }
}

TEST_F(Deltas, MissingBaseIsNamed)
{
    auto image = Image::open(path(2));
    ASSERT_TRUE(image); // its own records can be read without the base
    std::string base = (*image)->header().base_id.hex();
    std::vector<uint8_t> all(4000 * kPageSize);
    auto ok = (*image)->read_pages(0, 0, all);
    ASSERT_FALSE(ok);
    EXPECT_NE(ok.error().text().find(base), std::string::npos) << ok.error().text();

    Digest first = Image::open(path(1)).operator*()->header().base_id;
    ids_.erase(first);
    image = Image::open(path(2), {.find_base = resolver()});
    ok = (*image)->read_pages(0, 0, all);
    ASSERT_FALSE(ok);
    EXPECT_NE(ok.error().text().find(first.hex()), std::string::npos) << ok.error().text();
}

// A base with the right id and other contents: only the checksum differs.
TEST_F(Deltas, WrongBaseIsRefused)
{
    auto image =
        Image::open(path(1), {.find_base = [this](const Digest &id) {
                        auto writer = ImageWriter::create(file(dir_ / "impostor"));
                        EXPECT_TRUE((*writer)->add_zero(0, 0, 4000));
                        EXPECT_TRUE((*writer)->commit());
                        // Give it the id of the base, and checksums that fit.
                        std::vector<uint8_t> bytes = slurp(dir_ / "impostor");
                        auto header = *Header::decode(Bytes(bytes).first(kHeaderSize));
                        header.id = id;
                        auto page = header.encode();
                        std::ranges::copy(page, bytes.begin());
                        Footer footer = *Footer::decode(Bytes(bytes).last(kFooterSize));
                        footer.id = id;
                        Hasher covered;
                        covered.add(page);
                        for (size_t at = kHeaderSize; at < bytes.size() - kFooterSize;) {
                            RecordPrefix p =
                                RecordPrefix::decode(Bytes(bytes).subspan(at).first<kPrefixSize>());
                            Bytes record = Bytes(bytes).subspan(at, kPrefixSize + p.length);
                            if (p.type != RecordType::segment)
                                covered.add(record);
                            at += record.size();
                        }
                        std::ranges::copy(footer.seal(covered), bytes.end() - kFooterSize);
                        spew(dir_ / "impostor", bytes);
                        auto found = Image::open(dir_ / "impostor");
                        EXPECT_TRUE(found) << found.error().text();
                        return Result<std::shared_ptr<Image>>(std::move(*found));
                    }});
    ASSERT_TRUE(image);
    std::vector<uint8_t> all(4000 * kPageSize);
    auto ok = (*image)->read_pages(0, 0, all);
    ASSERT_FALSE(ok);
    EXPECT_EQ(ok.error().code(), ESTALE);
    EXPECT_NE(ok.error().text().find("impostor"), std::string::npos) << ok.error().text();
}

TEST_F(Deltas, ACompleteImageCannotReferToABase)
{
    auto writer = ImageWriter::create(file(dir_ / "image"));
    EXPECT_FALSE((*writer)->add_base(0, 0, 1, 0));
}

} // namespace
} // namespace cryo::image
