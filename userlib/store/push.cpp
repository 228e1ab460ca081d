// SPDX-License-Identifier: Apache-2.0
#include "store/push.hpp"

#include "store/claim.hpp"
#include "store/client.hpp"
#include "store/measured.hpp"
#include "store/mover.hpp"
#include "store/parallel.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <set>

namespace cryo::store {

namespace {

class Push
{
  public:
    Push(const Contents &contents, const Location &place, const Settings &settings,
         const MoveOptions &options)
        : contents_(contents), place_(place), settings_(settings), options_(options),
          mover_(options, contents.files.size())
    {
        made_.manifest.kind = contents.kind;
        made_.manifest.name = contents.name;
        made_.manifest.root = contents.root;
        made_.manifest.files.resize(contents.files.size());
        measured_.resize(contents.files.size());
    }

    Result<Pushed> run();

  private:
    Result<void> check_names() const;
    Result<void> measure_all();
    Result<void> put(size_t index);
    Result<void> commit(Client &client, Claim &claim);
    void remove_former(Client &client, const Manifest &former);

    const Contents &contents_;
    const Location &place_;
    const Settings &settings_;
    const MoveOptions &options_;
    Mover mover_;
    Pushed made_;
    std::vector<Measured> measured_;
    std::atomic<uint64_t> sent_ = 0;
};

Result<void> Push::measure_all()
{
    Result<void> done = parallel(contents_.files.size(), mover_.files_at_once(), mover_.ended(),
                                 [this](unsigned, size_t index) -> Result<void> {
                                     Result<Measured> measured =
                                         Measured::of(contents_.files[index]);
                                     if (!measured)
                                         return measured.error();
                                     made_.manifest.files[index] = measured->file();
                                     measured_[index] = std::move(*measured);
                                     return {};
                                 });
    mover_.expect(made_.manifest.bytes());
    return done;
}

Result<void> Push::put(size_t index)
{
    const StoredFile &file = made_.manifest.files[index];
    const Location at = file.object(place_);
    Client client(settings_, mover_.terms());
    const Result<std::optional<uint64_t>> there = client.size(at);
    if (!there)
        return there.error();
    if (*there == file.bytes) { // the name says what its contents are
        const Terms terms = mover_.terms();
        if (terms.moved)
            terms.moved(file.bytes);
        return {};
    }
    const Result<Fd> opened = contents_.files[index].open();
    if (!opened)
        return opened.error();
    // The file was read for its checksum, which the object is named by, and is read again.
    const auto is_as_it_was = [&] { return measured_[index].check_unchanged(opened->get()); };
    const Result<UploadOutcome> done = upload(
        {.fd = opened->get(), .name = file.name, .bytes = file.bytes, .check = is_as_it_was}, at,
        {.settings = settings_,
         .terms = mover_.terms(),
         .part_size = options_.part_size,
         .workers = mover_.parts_at_once(),
         .ended = mover_.ended()});
    if (!done)
        return done.error();
    sent_ += done->sent;
    return {};
}

Result<void> Push::commit(Client &client, Claim &claim)
{
    const Result<std::string> text = made_.manifest.text_of_push(place_.text());
    if (!text)
        return text.error();
    // Else what is there may be removed, and the manifest would name what is not.
    if (Result<void> ours = claim.check(); !ours)
        return ours;
    return client.put(place_.within(manifest_name), *text);
}

// The objects of the manifest that was there before. The snapshot is complete whatever happens
// here.
void Push::remove_former(Client &client, const Manifest &former)
{
    std::set<std::string> used;
    for (const StoredFile &file : made_.manifest.files)
        used.insert(file.object(place_).key);
    for (const StoredFile &file : former.files) {
        const Location at = file.object(place_);
        if (used.contains(at.key))
            continue;
        if (const Result<void> removed = client.remove(at); !removed) {
            made_.notices.push_back("what was there before was not removed: " +
                                    removed.error().text());
            return;
        }
    }
}

// The list of the files has them in JSON.
Result<void> Push::check_names() const
{
    std::vector<std::string> names = {contents_.name};
    for (const Content &content : contents_.files)
        names.push_back(content.name);
    for (const std::string &name : names) {
        if (!is_safe_name(name))
            return Error(EINVAL, name + ": an object store cannot have this name, which is no "
                                        "UTF-8; give it another one");
    }
    return {};
}

Result<Pushed> Push::run()
{
    if (Result<void> good = check_names(); !good)
        return good.error();
    Client client(settings_, mover_.terms());
    // First, since it shows whether there is a bucket that may be used.
    if (const Result<Manifest> there = Manifest::read(client, place_);
        !there && there.error().code() == EACCES)
        return there.error();
    const Result<std::unique_ptr<Claim>> claim = Claim::take(settings_, place_, mover_.terms());
    if (!claim)
        return claim.error();
    const Result<Manifest> former = Manifest::read(client, place_); // an earlier push's, by now
    if (Result<void> measured = measure_all(); !measured)
        return measured.error();
    // Files with equal contents are one object.
    std::vector<size_t> different;
    std::set<std::string> keys;
    for (size_t i = 0; i < made_.manifest.files.size(); i++) {
        if (keys.insert(made_.manifest.files[i].object(place_).key).second)
            different.push_back(i);
    }
    Result<void> done = parallel(different.size(), mover_.files_at_once(), mover_.ended(),
                                 [&](unsigned, size_t part) { return put(different[part]); });
    if (!done)
        return done.error();
    if (done = commit(client, **claim); !done)
        return done.error();
    if (former && (*claim)->check())
        remove_former(client, *former);
    made_.sent = sent_;
    return std::move(made_);
}

} // namespace

Result<Pushed> push(const Contents &contents, const Location &place, const Settings &settings,
                    const MoveOptions &options)
{
    return Push(contents, place, settings, options).run();
}

} // namespace cryo::store
