// SPDX-License-Identifier: Apache-2.0
#include "in_process.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace cryo::coord::sim {

namespace {

constexpr size_t most_in_a_turn = 4096;
// Above any that Linux gives: a signal to it would reach nobody.
constexpr int no_process = 1 << 22;

} // namespace

class InProcess::End final : public Channel
{
  public:
    End(InProcess &post, Stopped stopped)
        : Channel(post.loop_, Fd(), {}), post_(post.self_), stopped_(std::move(stopped))
    {}
    ~End() override { End::close(); }

    using Channel::send;
    void send(FrameKind kind, std::string_view body) override
    {
        if (open_)
            put({other, kind, std::string(body), false});
    }
    void close() override
    {
        if (std::exchange(open_, false))
            put({other, FrameKind::json, "", true});
    }
    void close_when_sent() override
    {
        on_frame = nullptr;
        on_end = nullptr;
        close();
    }
    bool open() const override { return open_; }
    Peer peer() const override { return {geteuid(), no_process}; }

    void take(FrameKind kind, const std::string &body)
    {
        const std::shared_ptr<Channel> keep = shared_from_this();
        if (stopped_ && *stopped_)
            return;
        if (open_ && !take_frame(kind, body))
            end();
    }
    void end()
    {
        if (!open_)
            return;
        close();
        if (const std::function<void()> told = std::move(on_end))
            told();
    }

    std::weak_ptr<End> other;

  private:
    void put(Frame frame) const
    {
        if (const auto post = post_.lock())
            (*post)->put(std::move(frame));
    }

    std::weak_ptr<InProcess *> post_;
    Stopped stopped_;
    bool open_ = true;
};

InProcess::Ends InProcess::connect(Stopped first, Stopped second)
{
    const auto one = std::make_shared<End>(*this, std::move(first));
    const auto other = std::make_shared<End>(*this, std::move(second));
    one->other = other;
    other->other = one;
    return {one, other};
}

void InProcess::put(Frame frame)
{
    frames_.push_back(std::move(frame));
    if (frames_.size() == 1)
        loop_.after(0, [this] { deliver(); });
}

void InProcess::deliver()
{
    for (size_t i = 0; i < most_in_a_turn && !frames_.empty(); i++)
        deliver_one();
    if (!frames_.empty())
        loop_.after(0, [this] { deliver(); });
}

void InProcess::deliver_all()
{
    while (!frames_.empty())
        deliver_one();
}

// The frame stays in the list meanwhile, so that another one does not begin a second delivery.
void InProcess::deliver_one()
{
    const Frame frame = std::move(frames_.front());
    if (const std::shared_ptr<End> to = frame.to.lock()) {
        if (frame.is_last)
            to->end();
        else
            to->take(frame.kind, frame.body);
    }
    frames_.pop_front();
}

Mailbox::Mailbox(Loop &loop) : loop_(loop), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
{
    loop_.watch(bell_.get(), POLLIN, [this](short) { open(); });
}

Mailbox::~Mailbox()
{
    loop_.forget(bell_.get());
}

void Mailbox::put(std::function<void()> what)
{
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(what));
    eventfd_write(bell_.get(), 1);
}

LoopThread::~LoopThread()
{
    if (!thread_.joinable())
        return;
    put([this] { loop_.stop(); });
    thread_.join();
}

void LoopThread::begin()
{
    thread_ = std::thread([this] { loop_.run(); });
    pthread_getcpuclockid(thread_.native_handle(), &clock_);
}

double LoopThread::processor_seconds() const
{
    return seconds_of(clock_);
}

double seconds_of(clockid_t clock)
{
    timespec now = {};
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void Mailbox::open()
{
    std::vector<std::function<void()>> letters;
    {
        const std::lock_guard lock(mutex_);
        eventfd_t rung = 0;
        eventfd_read(bell_.get(), &rung);
        letters = std::exchange(letters_, {});
    }
    for (const auto &what : letters)
        what();
}

} // namespace cryo::coord::sim
