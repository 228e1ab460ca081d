// SPDX-License-Identifier: Apache-2.0
// Contexts of asynchronous I/O. The kernel decides how large a ring is and where its tail is; the
// restorer (make_ring) makes it agree.
#include "restore/plan_parts.hpp"
#include "sys/aio_ring.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr size_t numbers = sizeof(io_event) / sizeof(uint64_t);

std::string name_of(const image::AioContext &context)
{
    return fmt::format("the context of asynchronous I/O at {:x}", context.start);
}

Result<void> check_context(const image::AioContext &context)
{
    const uint64_t bytes = context.end - context.start;
    const bool has_size =
        context.end > context.start && bytes % image::kPageSize == 0 && bytes < 1U << 31;
    const uint64_t slots = has_size ? sys::aio_slots(bytes) : 0;
    if (context.head >= slots || context.tail >= slots ||
        context.events.size() != (context.tail + slots - context.head) % slots * numbers)
        return Error(EINVAL, name_of(context) + ": damaged in the image");
    return {};
}

// Whether this machine makes such a ring.
Result<void> try_context(const image::AioContext &context)
{
    const uint64_t bytes = context.end - context.start;
    aio_context_t made = 0;
    if (syscall(SYS_io_setup, sys::aio_requests(bytes), &made) != 0)
        return errno == EAGAIN ? Error(EAGAIN, name_of(context) + ": fs.aio-max-nr allows no more")
                               : Error::from_errno(name_of(context), errno);
    const uint64_t slots = reinterpret_cast<const sys::AioRing *>(made)->slots;
    syscall(SYS_io_destroy, made);
    if (slots != sys::aio_slots(bytes))
        return Error(ENOTSUP, fmt::format("{} has a ring for {} events, and here the smallest is "
                                          "for {}: this machine can have more processors",
                                          name_of(context), sys::aio_slots(bytes), slots));
    return {};
}

} // namespace

image::Region ring_of(const image::AioContext &context)
{
    image::Region ring;
    ring.start = context.start;
    ring.end = context.end;
    ring.prot = PROT_READ | PROT_WRITE;
    ring.flags = context.flags;
    return ring;
}

Result<void> plan_aio(Planning &p)
{
    Program &program = p.plan.program;
    std::set<uint64_t> tried;
    for (const image::AioContext &context : p.saved.of<image::AioContext>()) {
        const uint64_t bytes = context.end - context.start;
        if (Result<void> good = check_context(context); !good)
            return good;
        if (tried.insert(bytes).second) {
            if (Result<void> can = try_context(context); !can)
                return can;
        }
        const SavedRing ring = {sys::aio_requests(bytes),
                                static_cast<uint32_t>(sys::aio_slots(bytes)), context.head,
                                context.tail};
        const image::Bytes events = context.events.bytes();
        std::string data(sizeof(ring) + events.size(), 0);
        memcpy(data.data(), &ring, sizeof(ring));
        if (!events.empty())
            memcpy(&data[sizeof(ring)], events.data(), events.size());
        program.add(Do::ring, "making " + name_of(context),
                    {value(context.start), value(bytes), program.data(data.data(), data.size()),
                     value(p.plan.header.plan_fd)});
    }
    return {};
}

} // namespace cryo::restore
