// SPDX-License-Identifier: Apache-2.0
#include "store/pull.hpp"

#include "base/sync.hpp"
#include "base/write_all.hpp"
#include "image/checksum.hpp"
#include "store/client.hpp"
#include "store/fresh_directory.hpp"
#include "store/mover.hpp"
#include "store/parallel.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::store {

namespace {

Result<void> receive(const StoredFile &file, const Location &place, Client &client,
                     const Client::Sink &keep)
{
    const Location at = file.object(place);
    image::Hasher hasher;
    Result<void> got = client.get(at, file.bytes, [&](std::span<const uint8_t> piece) {
        hasher.add(piece);
        return keep ? keep(piece) : Result<void>();
    });
    if (!got)
        return got;
    if (hasher.digest().hex() != file.checksum)
        return Error(EBADMSG, fmt::format("{}: is damaged: the checksum of {} is another one",
                                          at.text(), file.name));
    return {};
}

Result<void> for_each_file(const Manifest &manifest, const Settings &settings,
                           const MoveOptions &options,
                           const std::function<Result<void>(const StoredFile &, Client &)> &work)
{
    Mover mover(options, manifest.files.size());
    mover.expect(manifest.bytes());
    std::vector<std::unique_ptr<Client>> clients;
    for (unsigned i = 0; i < mover.files_at_once(); i++)
        clients.push_back(std::make_unique<Client>(settings, mover.terms()));
    return parallel(manifest.files.size(), mover.files_at_once(), mover.ended(),
                    [&](unsigned worker, size_t index) {
                        return work(manifest.files[index], *clients[worker]);
                    });
}

Result<void> keep_file(const StoredFile &file, const Location &place, Client &client,
                       const FreshDirectory &fresh)
{
    const std::string path = fresh.path_of(file);
    const Result<Fd> to = fresh.create(file);
    if (!to)
        return to.error();
    Result<void> got = receive(file, place, client, [&](std::span<const uint8_t> piece) {
        return write_all(to->get(), path, piece);
    });
    if (!got)
        return got;
    const int error = sync_file(to->get());
    return error == 0 ? Result<void>() : Result<void>(Error::from_errno(path, error));
}

} // namespace

Result<void> pull(const Manifest &manifest, const Location &place, const std::string &directory,
                  const Settings &settings, const MoveOptions &options)
{
    Result<FreshDirectory> fresh = FreshDirectory::make(directory, manifest);
    if (!fresh)
        return fresh.error();
    Result<void> done =
        for_each_file(manifest, settings, options, [&](const StoredFile &file, Client &client) {
            return keep_file(file, place, client, *fresh);
        });
    return done ? fresh->take_name() : done;
}

Result<void> verify(const Manifest &manifest, const Location &place, const Settings &settings,
                    const MoveOptions &options)
{
    return for_each_file(manifest, settings, options, [&](const StoredFile &file, Client &client) {
        return receive(file, place, client, {});
    });
}

} // namespace cryo::store
