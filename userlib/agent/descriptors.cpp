// SPDX-License-Identifier: Apache-2.0
// Gives the checkpointer the program's descriptors, to inspect by system calls where /proc does not
// suffice; and the data queued in a pseudo-terminal, which only reading can reveal.
#include "agent/agent.hpp"
#include "agent/room.hpp"
#include "sys/raw.hpp"
#include "sys/terminal_queue.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace cryo::agent {

namespace {

// Static: the handler's stack may be small. Only the leader uses them.
alignas(cmsghdr) char control[CMSG_SPACE(descriptors_at_once * sizeof(int))];
char to_slave[terminal_most];
char to_master[terminal_most];

long terminal_queues(int master, sys::TerminalQueues &q)
{
    // A descriptor of our own for the slave, whatever descriptors of it the program has.
    const long slave = with_room([master] {
        return sys::call(SYS_ioctl, master, TIOCGPTPEER,
                         O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    });
    if (sys::failed(slave))
        return slave;
    int packets = 0;
    const int off = 0;
    termios2 modes;
    sys::call(SYS_ioctl, master, TIOCGPKT, &packets);
    long result = sys::call(SYS_ioctl, master, TCGETS2, &modes);
    if (!sys::failed(result)) {
        sys::call(SYS_ioctl, master, TIOCPKT, &off);
        result = sys::take_queues(master, static_cast<int>(slave), q);
        const long back = sys::put_queues(master, static_cast<int>(slave), q, modes);
        sys::call(SYS_ioctl, master, TIOCPKT, &packets);
        result = sys::failed(result) ? result : back;
    }
    sys::call(SYS_close, slave);
    return result;
}

} // namespace

bool send_descriptors(int connection, const DescriptorsRequest &request)
{
    Reply answer = {protocol_magic, protocol_version, Op::descriptors, 0, 0, 0};
    int *to = reinterpret_cast<int *>(CMSG_DATA(reinterpret_cast<cmsghdr *>(control)));
    for (int bit = 0; bit < descriptors_at_once; bit++) {
        if ((request.wanted[bit / 64] >> (bit % 64) & 1) != 0)
            to[answer.count++] = request.first + bit;
    }
    iovec part = {&answer, sizeof(answer)};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (answer.count > 0) {
        auto *head = reinterpret_cast<cmsghdr *>(control);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(answer.count * sizeof(int));
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(answer.count * sizeof(int));
    }
    const long sent = send_message(connection, &message);
    if (!sys::failed(sent))
        return true;
    answer.result = sent;
    answer.count = 0;
    return send_packet(connection, &answer, sizeof(answer)) == sizeof(answer);
}

bool send_terminal(int connection, const TerminalRequest &request)
{
    sys::TerminalQueues q = {to_slave, 0, to_master, 0, terminal_most};
    const long result = terminal_queues(request.master, q);
    const Reply answer = {protocol_magic, protocol_version, Op::terminal,
                          result,         q.to_slave_size,  q.to_master_size};
    send_packet(connection, &answer, sizeof(answer));
    if (sys::failed(result))
        return false;
    if (q.to_slave_size > 0)
        send_packet(connection, to_slave, q.to_slave_size);
    if (q.to_master_size > 0)
        send_packet(connection, to_master, q.to_master_size);
    return true;
}

} // namespace cryo::agent
