// SPDX-License-Identifier: Apache-2.0
//
// Data queued for reading at both ends of a pseudo-terminal. The kernel cannot show it: it is read,
// and written again. Raw system calls only: the agent does this inside the program, where no other
// process's death can interrupt it, and cr_restart fills a new pseudo-terminal likewise.
//
//     sys::TerminalQueues q = {to_slave, 0, to_master, 0, size};
//     long result = sys::take_queues(master, slave, q); // sets raw modes
//     result = sys::put_queues(master, slave, q, modes);  // sets `modes`
#pragma once

#include "sys/raw.hpp"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <cerrno>
#include <cstdint>
#include <poll.h>

namespace cryo::sys {

struct TerminalQueues {
    char *to_slave;
    uint32_t to_slave_size;
    char *to_master;
    uint32_t to_master_size;
    uint32_t most; // size of each buffer
};

inline bool terminal_readable(int fd, int timeout_ms)
{
    // poll(2) waits for data that is still in transit between the two ends.
    pollfd look = {fd, POLLIN, 0};
    return call(SYS_poll, &look, 1, timeout_ms) == 1 && (look.revents & POLLIN) != 0;
}

// Reads everything that is available.
inline long drain_terminal(int fd, char *to, uint32_t &size, uint32_t most)
{
    while (terminal_readable(fd, 0)) {
        if (size == most)
            return -ENOBUFS;
        const long n = call(SYS_read, fd, to + size, most - size);
        if (failed(n))
            return n;
        if (n == 0)
            return 0;
        size += static_cast<uint32_t>(n);
    }
    return 0;
}

inline termios2 raw_modes(const termios2 &like)
{
    termios2 raw = like;
    raw.c_iflag = raw.c_oflag = raw.c_lflag = 0;
    for (unsigned char &c : raw.c_cc)
        c = 0;
    raw.c_cc[VMIN] = 1;
    return raw;
}

inline long take_queues(int master, int slave, TerminalQueues &q)
{
    termios2 modes;
    long result = call(SYS_ioctl, master, TCGETS2, &modes);
    if (failed(result))
        return result;
    const termios2 raw = raw_modes(modes);
    result = call(SYS_ioctl, master, TCSETS2, &raw);
    if (!failed(result))
        result = drain_terminal(slave, q.to_slave, q.to_slave_size, q.most);
    if (!failed(result))
        result = drain_terminal(master, q.to_master, q.to_master_size, q.most);
    return result;
}

inline long write_terminal(int fd, const char *from, uint32_t size)
{
    while (size > 0) {
        const long n = call(SYS_write, fd, from, size);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return n == 0 ? -EIO : n;
        from += n;
        size -= static_cast<uint32_t>(n);
    }
    return 0;
}

// Input goes through the line discipline again, which runs some time after the write. It echoes
// each character as it accepts it: once all echoes have arrived, all characters are queued.
inline long type_again(int master, const char *text, uint32_t size, const termios2 &modes)
{
    constexpr char literally = 0x16; // makes the next character literal, and is not echoed
    termios2 typing = raw_modes(modes);
    typing.c_lflag = (modes.c_lflag & ICANON) | ECHO;
    const bool lines = (modes.c_lflag & ICANON) != 0;
    const auto end = static_cast<char>(modes.c_cc[VEOF]);
    if (lines) {
        typing.c_lflag |= IEXTEN;
        typing.c_cc[VEOF] = modes.c_cc[VEOF];
        typing.c_cc[VLNEXT] = literally;
    }
    uint32_t echoes = size;
    long result = call(SYS_ioctl, master, TCSETS2, &typing);
    uint32_t written = 0;
    for (uint32_t i = 0; i < size && lines && !failed(result); i++) {
        // The end-of-file character is queued as NUL, and is not echoed. It is queued as itself if
        // it was typed before canonical mode was set.
        const bool ends = text[i] == 0 && end != 0;
        if (!ends && text[i] != end && text[i] != literally)
            continue;
        const char typed[2] = {literally, text[i]};
        result = write_terminal(master, text + written, i - written);
        if (!failed(result))
            result = ends ? write_terminal(master, &end, 1) : write_terminal(master, typed, 2);
        echoes -= ends ? 1 : 0;
        written = i + 1;
    }
    if (!failed(result))
        result = write_terminal(master, text + written, size - written);
    while (!failed(result) && echoes > 0) {
        char echo[256];
        if (!terminal_readable(master, 5000))
            return -EIO;
        result =
            call(SYS_read, master, echo, echoes < sizeof(echo) ? echoes : uint32_t(sizeof(echo)));
        if (!failed(result))
            echoes -= static_cast<uint32_t>(result);
    }
    return result;
}

inline long put_queues(int master, int slave, const TerminalQueues &q, const termios2 &modes)
{
    long result = 0;
    if (q.to_slave_size > 0)
        result = type_again(master, q.to_slave, q.to_slave_size, modes);
    // Leaving canonical mode, even briefly, would join all queued input into one line.
    termios2 silent = raw_modes(modes);
    silent.c_lflag = modes.c_lflag & ICANON;
    if (!failed(result))
        result = call(SYS_ioctl, master, TCSETS2, &silent);
    // Only now: echoes would have been queued behind this data.
    if (!failed(result))
        result = write_terminal(slave, q.to_master, q.to_master_size);
    const long back = call(SYS_ioctl, master, TCSETS2, &modes);
    return failed(result) ? result : back;
}

} // namespace cryo::sys
