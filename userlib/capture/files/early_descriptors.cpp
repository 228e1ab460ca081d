// SPDX-License-Identifier: Apache-2.0
#include "capture/files/early_descriptors.hpp"

#include "look/together.hpp"
#include "resources/paths.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

using resources::Seen;

namespace {

constexpr size_t worth_it = 64;
constexpr size_t most = 200'000; // a program may have millions, and this takes memory here

std::atomic<size_t> open_infos = 0;

size_t descriptor_limit()
{
    rlimit limit = {};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// Whether the same inode of the same mount has the same link for as long as its name leads to it.
bool has_one_name(const Seen &seen)
{
    if (seen.link.starts_with("socket:[") || seen.link.starts_with("pipe:["))
        return true;
    return (S_ISDIR(seen.status.st_mode) ||
            (S_ISREG(seen.status.st_mode) && seen.status.st_nlink == 1)) &&
           resources::is_named(seen);
}

// A table of descriptors that grows while several threads use it waits for all of them.
void make_room(size_t count)
{
    const auto last = static_cast<int>(std::min(descriptor_limit(), count));
    const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Fd far(last > 0 && null ? fcntl(null.get(), F_DUPFD_CLOEXEC, last - 1) : -1);
}

} // namespace

EarlyDescriptors &EarlyDescriptors::operator=(EarlyDescriptors &&other) noexcept
{
    close_infos();
    all_ = std::exchange(other.all_, {});
    return *this;
}

// Kernels before 5.14 do not tell of the inode.
std::optional<EarlyDescriptors::Identity> EarlyDescriptors::identity_of(std::string_view info)
{
    std::string_view mount = field(info, "mnt_id");
    std::string_view inode = field(info, "ino");
    if (mount.empty() || inode.empty())
        return {};
    return Identity{take_number(mount), take_number(inode)};
}

Result<EarlyDescriptors::One> EarlyDescriptors::look(int fd, const DescriptorListing &listing,
                                                     size_t most_infos)
{
    Result<Seen> seen = listing.look_at(fd);
    if (!seen)
        return seen.error();
    One one;
    if (has_one_name(*seen))
        one.identity = identity_of(seen->info);
    one.seen = std::move(*seen);
    one.seen.info.clear();
    one.seen.named.reset();
    if (++open_infos <= most_infos) {
        if (Result<Fd> info = listing.open_info(fd))
            one.info = std::move(*info);
    }
    if (!one.info)
        --open_infos;
    return one;
}

EarlyDescriptors EarlyDescriptors::at(const Proc &proc)
{
    EarlyDescriptors early;
    const Result<std::vector<int>> numbers = proc.numbers("fd");
    if (!numbers || numbers->size() < worth_it || numbers->size() > most)
        return early;
    make_room(2 * numbers->size() + 512);
    // The rest needs descriptors, too: in the end as many as the program has.
    const size_t most_infos = descriptor_limit() / 3;
    const DescriptorListing listing(proc);
    early.all_.resize(numbers->size());
    const Result<void> looked = together_in_parts(numbers->size(), [&](size_t i) -> Result<void> {
        if (Result<One> one = look((*numbers)[i], listing, most_infos))
            early.all_[i] = std::move(*one);
        return {};
    });
    static_cast<void>(looked);
    std::erase_if(early.all_, [](const One &one) { return one.seen.fd < 0; }); // closed meanwhile
    return early;
}

std::vector<int> EarlyDescriptors::numbers() const
{
    std::vector<int> all;
    all.reserve(all_.size());
    for (const One &one : all_)
        all.push_back(one.seen.fd);
    return all;
}

Result<std::optional<Seen>> EarlyDescriptors::look_at(int fd,
                                                      const DescriptorListing &listing) const
{
    const auto at =
        std::ranges::lower_bound(all_, fd, {}, [](const One &one) { return one.seen.fd; });
    const One *known = at != all_.end() && at->seen.fd == fd ? &*at : nullptr;
    Result<std::string> info =
        known != nullptr && known->info ? listing.read_info(known->info, fd) : listing.info(fd);
    if (!info && info.error().code() == ENOENT)
        return std::optional<Seen>();
    if (!info)
        return info.error();
    if (known == nullptr || !known->identity || identity_of(*info) != known->identity) {
        Result<Seen> seen = listing.look_at(fd, std::move(*info));
        return seen ? Result<std::optional<Seen>>(std::move(*seen)) : seen.error();
    }
    Seen seen;
    seen.fd = fd;
    seen.link = known->seen.link;
    seen.status = known->seen.status;
    seen.early = true;
    set_info(seen, std::move(*info));
    return std::optional<Seen>(std::move(seen));
}

void EarlyDescriptors::close_infos()
{
    for (One &one : all_) {
        if (one.info)
            --open_infos;
        one.info.reset();
    }
}

size_t EarlyDescriptors::infos()
{
    return open_infos;
}

} // namespace cryo::capture
