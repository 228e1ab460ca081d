// SPDX-License-Identifier: Apache-2.0
#include "redundancy/encode.hpp"

#include "image/checksum.hpp"
#include "redundancy/coder.hpp"
#include "redundancy/member_files.hpp"
#include "redundancy/parity_file.hpp"
#include "redundancy/rows.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <memory>
#include <optional>

namespace cryo::redundancy {

namespace {

// A member that is there.
struct Source {
    const Directory *directory = nullptr; // null: the member is lost
    std::optional<ParityReader> parity;
    std::unique_ptr<MemberReader> files;
    bool changed = false; // a block is not what was encoded
};

struct Target {
    std::unique_ptr<MemberWriter> files;
    std::optional<ParityWriter> parity;
};

// All members of one set.
struct Sources {
    Description set;
    std::vector<Source> members;
    std::vector<Error> unusable; // directories whose parity cannot be read: their members are lost
};

Result<void> add_source(Sources &all, const Directory &directory, ParityReader parity)
{
    const Description &found = parity.description();
    if (all.members.empty()) {
        all.set = found;
        all.members.resize(found.members.size());
    }
    if (!all.set.is_same_set(found))
        return Error(EINVAL, fmt::format("{}: is of another set than the others (of {}, not {})",
                                         directory.path(parity_name), found.id, all.set.id));
    Source &source = all.members[found.member];
    if (source.directory)
        return Error(EEXIST, fmt::format("{} and {}: are both of {}", source.directory->path(),
                                         directory.path(), found.members[found.member].node));
    source.directory = &directory;
    source.parity = std::move(parity);
    return {};
}

Result<Sources> find_sources(const std::vector<const Directory *> &there, const Trust &trust)
{
    Sources all;
    for (const Directory *directory : there) {
        Result<ParityReader> parity = ParityReader::open(*directory, trust);
        if (!parity)
            all.unusable.push_back(parity.error());
        else if (Result<void> added = add_source(all, *directory, std::move(*parity)); !added)
            return added.error();
    }
    if (all.members.empty())
        return all.unusable.empty() ? Error(ENODATA, "no member of the set is there")
                                    : all.unusable.front();
    return all;
}

class Rebuilding
{
  public:
    Rebuilding(Sources sources, const Trust &trust);

    Result<void> begin(const std::map<uint32_t, const Directory *> &to);
    Result<Rebuilt> run();

  private:
    void read_data(size_t at);
    Result<void> read_parity(size_t at);
    void compare_data();
    Result<void> make_missing();
    Result<void> check_made(const std::vector<bool> &was_missing) const;
    Result<void> write_row();
    Result<void> do_row();
    Result<Rebuilt> finish();
    bool wants_data() const; // of this row, for a target
    bool wants_parity() const;
    Error too_many() const;
    const std::string &node(uint32_t member) const { return all_.set.members[member].node; }

    Sources all_;
    Rows rows_;
    Blocks row_;
    Coder coder_;
    std::map<uint32_t, Target> targets_;
    std::vector<bool> missing_;  // of the row: data, then parity
    std::vector<uint64_t> sums_; // of its data and of one parity block, if `known_`
    std::vector<uint64_t> other_sums_;
    bool known_ = false;
    bool unchecked_ = false; // parity was made of data that no record was left to check
    bool redundant_ = true;  // all parity of the targets could be made
};

Rebuilding::Rebuilding(Sources sources, const Trust &trust)
    : all_(std::move(sources)), rows_(all_.set.scheme, all_.set.blocks()),
      row_(rows_.data_count() + rows_.parity_count(), all_.set.block),
      coder_(rows_.data_count(), rows_.parity_count(), all_.set.block),
      sums_(rows_.data_count() + 1), other_sums_(sums_.size())
{
    for (size_t i = 0; i < all_.members.size(); i++) {
        Source &one = all_.members[i];
        if (one.directory)
            one.files = std::make_unique<MemberReader>(*one.directory, all_.set.members[i], trust);
    }
}

Result<void> Rebuilding::begin(const std::map<uint32_t, const Directory *> &to)
{
    std::vector<bool> lost;
    for (const Source &one : all_.members)
        lost.push_back(one.directory == nullptr);
    if (Result<void> possible = check_loss(all_.set.scheme, all_.set.nodes(), lost); !possible)
        return all_.unusable.empty() ? possible
                                     : possible.error().with_more("; " + all_.unusable[0].text());
    for (const auto &[member, directory] : to) {
        if (member >= lost.size() || !lost[member])
            return Error(EINVAL, fmt::format("{}: member {} of the set is not lost",
                                             directory->path(), member));
        Description own = all_.set;
        own.member = member;
        Result<ParityWriter> parity = ParityWriter::create(*directory, own, true);
        if (!parity)
            return parity.error();
        Target &target = targets_[member];
        target.files = std::make_unique<MemberWriter>(*directory, all_.set.members[member]);
        target.parity.emplace(std::move(*parity));
    }
    return {};
}

void Rebuilding::read_data(size_t at)
{
    const uint32_t member = rows_.data()[at];
    const std::unique_ptr<MemberReader> &files = all_.members[member].files;
    if (!rows_.gives(member))
        std::ranges::fill(row_[at], uint8_t(0));
    else if (!files || !files->next(row_[at]))
        missing_[at] = true;
}

Result<void> Rebuilding::read_parity(size_t at)
{
    const size_t block = rows_.data().size() + at;
    const uint32_t member = rows_.parity()[at];
    std::optional<ParityReader> &parity = all_.members[member].parity;
    std::vector<uint64_t> &sums = known_ ? other_sums_ : sums_;
    missing_[block] = !parity || !parity->next(rows_.number(), row_[block], sums);
    if (missing_[block])
        return {};
    if (known_ && !std::equal(sums_.begin(), sums_.end() - 1, other_sums_.begin()))
        return Error(EBADMSG,
                     fmt::format("{}: was made of other data than that of another node (row {})",
                                 all_.members[member].directory->path(parity_name),
                                 rows_.number()));
    known_ = true;
    return {};
}

// A block that is not what was encoded is missing, too.
void Rebuilding::compare_data()
{
    for (size_t i = 0; i < rows_.data().size(); i++) {
        if (missing_[i] || !known_ || image::checksum64(row_[i]) == sums_[i])
            continue;
        missing_[i] = true;
        all_.members[rows_.data()[i]].changed = true;
    }
}

bool Rebuilding::wants_data() const
{
    return std::ranges::any_of(rows_.data(), [&](uint32_t member) {
        return rows_.gives(member) && targets_.contains(member);
    });
}

bool Rebuilding::wants_parity() const
{
    return std::ranges::any_of(rows_.parity(),
                               [&](uint32_t member) { return targets_.contains(member); });
}

Error Rebuilding::too_many() const
{
    std::vector<std::string> names;
    for (size_t i = 0; i < missing_.size(); i++) {
        const size_t data = rows_.data().size();
        if (missing_[i])
            names.push_back(node(i < data ? rows_.data()[i] : rows_.parity()[i - data]));
    }
    return {ENODATA,
            fmt::format("row {} of the set lacks the blocks of {}, which are lost or damaged, "
                        "and {} brings back {}",
                        rows_.number(), fmt::join(names, ", "), text_of(all_.set.scheme),
                        all_.set.scheme.losses)};
}

Result<void> Rebuilding::check_made(const std::vector<bool> &was_missing) const
{
    for (size_t i = 0; i < rows_.data().size(); i++) {
        if (was_missing[i] && (!known_ || image::checksum64(row_[i]) != sums_[i]))
            return Error(EBADMSG, fmt::format("row {} of the set: what was made for {} is not what "
                                              "was saved (checksum)",
                                              rows_.number(), node(rows_.data()[i])));
    }
    return {};
}

Result<void> Rebuilding::make_missing()
{
    if (!coder_.recover(row_, missing_)) {
        redundant_ = false;
        return wants_data() ? too_many() : Result<void>();
    }
    const auto parity = missing_.begin() + static_cast<ptrdiff_t>(rows_.data().size());
    unchecked_ =
        unchecked_ || (!known_ && std::find(parity, missing_.end(), true) != missing_.end());
    return check_made(missing_);
}

Result<void> Rebuilding::write_row()
{
    const size_t data = rows_.data().size();
    for (size_t i = 0; i < data; i++) {
        const auto target = targets_.find(rows_.data()[i]);
        if (!known_)
            sums_[i] = image::checksum64(row_[i]);
        if (target == targets_.end() || !rows_.gives(target->first))
            continue;
        if (Result<void> taken = target->second.files->next(row_[i]); !taken)
            return taken;
    }
    for (size_t i = 0; i < rows_.parity().size(); i++) {
        const auto target = targets_.find(rows_.parity()[i]);
        if (target == targets_.end() || !redundant_)
            continue;
        sums_.back() = image::checksum64(row_[data + i]);
        Result<void> added = target->second.parity->add(rows_.number(), sums_, row_[data + i]);
        if (!added)
            return added;
    }
    return {};
}

Result<void> Rebuilding::do_row()
{
    missing_.assign(row_.count(), false);
    known_ = false;
    for (size_t i = 0; i < rows_.data().size(); i++)
        read_data(i);
    for (size_t i = 0; i < rows_.parity().size(); i++) {
        if (Result<void> read = read_parity(i); !read)
            return read;
    }
    compare_data();
    if (!wants_data() && !wants_parity())
        return {};
    Result<void> made = make_missing();
    return made ? write_row() : made;
}

Result<Rebuilt> Rebuilding::finish()
{
    Rebuilt result;
    bool is_damaged = false;
    for (Source &one : all_.members) {
        if (!one.directory)
            continue;
        one.files->finish();
        one.parity->finish();
        const std::vector<Error> &troubles = one.files->troubles();
        result.damaged.insert(result.damaged.end(), troubles.begin(), troubles.end());
        if (one.changed && troubles.empty())
            result.damaged.push_back(Error(
                EBADMSG, one.directory->path() + ": its files are not those that were encoded"));
        is_damaged = is_damaged || one.changed || !troubles.empty();
        if (one.parity->trouble())
            result.damaged.push_back(*one.parity->trouble());
    }
    result.damaged.insert(result.damaged.end(), all_.unusable.begin(), all_.unusable.end());
    result.redundant = redundant_ && !(unchecked_ && is_damaged);
    for (auto &[member, target] : targets_) {
        if (Result<void> done = target.files->commit(); !done)
            return done.error();
        if (!result.redundant)
            continue;
        if (Result<void> done = target.parity->commit(); !done)
            return done.error();
    }
    return result;
}

Result<Rebuilt> Rebuilding::run()
{
    while (rows_.next()) {
        if (Result<void> done = do_row(); !done)
            return done.error();
    }
    return finish();
}

} // namespace

Result<Rebuilt> rebuild(const std::vector<const Directory *> &there,
                        const std::map<uint32_t, const Directory *> &to, const Trust &trust)
{
    Result<Sources> sources = find_sources(there, trust);
    if (!sources)
        return sources.error();
    Rebuilding rebuilding(std::move(*sources), trust);
    if (Result<void> begun = rebuilding.begin(to); !begun)
        return begun.error();
    return rebuilding.run();
}

} // namespace cryo::redundancy
