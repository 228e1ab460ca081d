// SPDX-License-Identifier: Apache-2.0
#include "restore/page_sender.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

namespace cryo::restore {

namespace {

constexpr uint64_t page_size = image::kPageSize;
constexpr uint64_t piece_size = 1 << 20;
constexpr uint64_t pipe_size = 1 << 20;     // fewer calls; not every user may have so much
constexpr uint64_t ahead = 32 << 20;        // how far the kernel reads ahead
constexpr uint64_t ahead_step = 128 * 1024; // the kernel may take no more of one request

// Tells the kernel which part of the image is needed soon. This is only an optimisation.
class ReadAhead
{
  public:
    explicit ReadAhead(int fd) : fd_(fd) {}

    void begin(const image::Mappable &stretch)
    {
        next_ = stretch.file_offset;
        end_ = stretch.file_offset + stretch.count * page_size;
        at_ = next_;
    }
    void advance(uint64_t bytes)
    {
        at_ += bytes;
        for (; next_ < std::min(end_, at_ + ahead); next_ += ahead_step)
            posix_fadvise(fd_, static_cast<off_t>(next_), ahead_step, POSIX_FADV_WILLNEED);
    }
    bool is_over() const { return at_ >= end_; }

  private:
    int fd_;
    uint64_t at_ = 0, next_ = 0, end_ = 0;
};

} // namespace

// A page in the pipe is referred to until it has been read, and must not change before. A
// pipe holds a limited number of pages: once as many others have been sent, the page has
// been read. Hence the size of the ring: what fits into the pipe, and a piece each for
// the part being written, for the part left unused at the ring's end, and as a reserve.
Result<PageSender> PageSender::create(Fd pipe)
{
    fcntl(pipe.get(), F_SETPIPE_SZ, pipe_size);
    const int holds = fcntl(pipe.get(), F_GETPIPE_SZ);
    if (holds < 0)
        return Error::from_errno("the pipe for memory", errno);
    const size_t size = static_cast<size_t>(holds) + 3 * piece_size;
    void *ring = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ring == MAP_FAILED)
        return Error::from_errno("memory to send memory from", errno);
    // After a fork, a page that is written to would be a copy; a child needs none of them.
    madvise(ring, size, MADV_DONTFORK);
    return PageSender(std::move(pipe), static_cast<uint8_t *>(ring), size);
}

PageSender::PageSender(PageSender &&other) noexcept
    : pipe_(std::move(other.pipe_)), ring_(std::exchange(other.ring_, nullptr)), size_(other.size_),
      at_(other.at_)
{}

// What is in the pipe stays there: the pipe has references of its own.
PageSender::~PageSender()
{
    if (ring_ != nullptr)
        munmap(ring_, size_);
}

Result<void> PageSender::pass_on(image::Bytes bytes)
{
    bool by_reference = true;
    while (!bytes.empty()) {
        const iovec part = {const_cast<uint8_t *>(bytes.data()), bytes.size()};
        const ssize_t n = by_reference ? vmsplice(pipe_.get(), &part, 1, 0)
                                       : write(pipe_.get(), bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EPIPE && by_reference) { // not permitted
            by_reference = false;
            continue;
        }
        if (n < 0)
            return Error::from_errno("sending memory", errno);
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

Result<void> PageSender::send(image::Image &image, const Fill &fill,
                              const std::function<void(uint64_t)> &moved)
{
    ReadAhead soon(image.fd());
    for (uint64_t done = 0; done < fill.count;) {
        const uint64_t page = fill.page + done;
        Result<image::Run> run = image.find(fill.object, page);
        if (!run)
            return run.error();
        const bool stored = !run->hole && run->kind == image::ExtentKind::data;
        if (stored && soon.is_over()) {
            Result<image::Mappable> stretch = image.mappable(fill.object, page);
            if (!stretch)
                return stretch.error();
            soon.begin(*stretch);
        }
        uint64_t count = std::min(fill.count - done, piece_size / page_size);
        // Pieces end where packages do, so that no package is unpacked twice.
        const uint64_t over = (run->source + count) % image.header().package_blocks;
        if (stored && count < fill.count - done && over < count)
            count -= over;
        const uint64_t size = count * page_size;
        soon.advance(size);
        if (at_ + size > size_)
            at_ = 0;
        const image::MutableBytes part(ring_ + at_, size);
        if (Result<void> got = image.read_pages(fill.object, page, part); !got)
            return got;
        if (Result<void> passed = pass_on(part); !passed)
            return passed;
        at_ += size;
        done += count;
        moved(size);
    }
    return {};
}

} // namespace cryo::restore
