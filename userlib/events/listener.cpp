// SPDX-License-Identifier: Apache-2.0
#include "events/listener.hpp"

#include <cerrno>
#include <deque>
#include <linux/genetlink.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <poll.h>

namespace cryo {

struct EventListener::Socket {
    Socket() : nl(nl_socket_alloc()) {}
    Socket(const Socket &) = delete;
    Socket &operator=(const Socket &) = delete;
    ~Socket() { nl_socket_free(nl); }

    nl_sock *nl;
    int family = -1;
    int group = -1;
    std::deque<Event> heard;
};

namespace {

template <class T>
T number(nlattr *attribute)
{
    return attribute
               ? static_cast<T>(sizeof(T) == 8 ? nla_get_u64(attribute) : nla_get_u32(attribute))
               : T{};
}

// The policy checks attribute lengths, so that no short one is read.
std::optional<Event> parse(nlmsghdr *header)
{
    nla_policy policy[CRYO_EVENT_A_MAX + 1] = {};
    for (int u32 : {CRYO_EVENT_A_PID, CRYO_EVENT_A_OPERATION, CRYO_EVENT_A_PHASE,
                    CRYO_EVENT_A_ERROR, CRYO_EVENT_A_TARGET})
        policy[u32].type = NLA_U32;
    for (int u64 : {CRYO_EVENT_A_PIDNS, CRYO_EVENT_A_BYTES_DONE, CRYO_EVENT_A_BYTES_TOTAL})
        policy[u64].type = NLA_U64;

    nlattr *attributes[CRYO_EVENT_A_MAX + 1] = {};
    if (genlmsg_parse(header, 0, attributes, CRYO_EVENT_A_MAX, policy) < 0)
        return {};
    if (!attributes[CRYO_EVENT_A_PID] || !attributes[CRYO_EVENT_A_PHASE])
        return {};

    Event event;
    event.pid = number<uint32_t>(attributes[CRYO_EVENT_A_PID]);
    event.pidns_inode = number<uint64_t>(attributes[CRYO_EVENT_A_PIDNS]);
    event.operation = number<uint32_t>(attributes[CRYO_EVENT_A_OPERATION]);
    event.phase = number<uint32_t>(attributes[CRYO_EVENT_A_PHASE]);
    event.error = static_cast<int>(number<uint32_t>(attributes[CRYO_EVENT_A_ERROR]));
    event.bytes_done = number<uint64_t>(attributes[CRYO_EVENT_A_BYTES_DONE]);
    event.bytes_total = number<uint64_t>(attributes[CRYO_EVENT_A_BYTES_TOTAL]);
    event.target = number<uint32_t>(attributes[CRYO_EVENT_A_TARGET]);
    return event;
}

Error nl_error(const char *what, int code)
{
    return Error(EIO, std::string(what) + ": " + nl_geterror(code));
}

} // namespace

EventListener::EventListener(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}
EventListener::EventListener(EventListener &&) noexcept = default;
EventListener &EventListener::operator=(EventListener &&) noexcept = default;
EventListener::~EventListener() = default;

Result<EventListener> EventListener::join()
{
    auto socket = std::make_unique<Socket>();
    if (!socket->nl)
        return Error(ENOMEM, "listening for events: out of memory");
    if (int rc = genl_connect(socket->nl); rc < 0)
        return nl_error("listening for events", rc);

    socket->family = genl_ctrl_resolve(socket->nl, CRYO_GENL_NAME);
    socket->group = genl_ctrl_resolve_grp(socket->nl, CRYO_GENL_NAME, CRYO_GENL_EVENTS);
    if (socket->family < 0 || socket->group < 0)
        return Error(ENODEV, "listening for events: the kernel module is not loaded; load it with "
                             "'modprobe cryo'");
    if (int rc = nl_socket_add_membership(socket->nl, socket->group); rc < 0) {
        if (rc == -NLE_PERM)
            return Error(EPERM, "listening for events: on kernels before 6.8 only the "
                                "administrator may, since events of all users are received there");
        return nl_error("listening for events", rc);
    }

    // One read may return several events; other messages are ignored.
    nl_socket_disable_seq_check(socket->nl);
    auto hear = [](nl_msg *message, void *data) -> int {
        auto *self = static_cast<Socket *>(data);
        nlmsghdr *header = nlmsg_hdr(message);
        if (header->nlmsg_type == self->family) {
            if (auto event = parse(header))
                self->heard.push_back(*event);
        }
        return NL_OK;
    };
    nl_socket_modify_cb(socket->nl, NL_CB_VALID, NL_CB_CUSTOM, hear, socket.get());
    nl_socket_set_nonblocking(socket->nl);
    return EventListener(std::move(socket));
}

int EventListener::fd() const
{
    return nl_socket_get_fd(socket_->nl);
}

// By a socket of its own: answers on the other one would stand among the events.
bool EventListener::is_current() const
{
    const Socket asking;
    return asking.nl && genl_connect(asking.nl) >= 0 &&
           genl_ctrl_resolve(asking.nl, CRYO_GENL_NAME) == socket_->family &&
           genl_ctrl_resolve_grp(asking.nl, CRYO_GENL_NAME, CRYO_GENL_EVENTS) == socket_->group;
}

Result<std::optional<Event>> EventListener::next(std::chrono::milliseconds patience)
{
    if (socket_->heard.empty()) {
        pollfd wait = {fd(), POLLIN, 0};
        int ready = poll(&wait, 1, static_cast<int>(patience.count()));
        if (ready < 0 && errno != EINTR)
            return Error::from_errno("waiting for an event", errno);
        if (ready <= 0)
            return std::optional<Event>();
        int rc = nl_recvmsgs_default(socket_->nl);
        if (rc == -NLE_NOMEM) // libnl's code for ENOBUFS
            return Error(ENOBUFS, "events were lost: they came faster than they were read");
        if (rc < 0 && rc != -NLE_AGAIN && rc != -NLE_INTR)
            return nl_error("reading an event", rc);
    }
    if (socket_->heard.empty())
        return std::optional<Event>();
    Event event = socket_->heard.front();
    socket_->heard.pop_front();
    return std::optional<Event>(event);
}

} // namespace cryo
