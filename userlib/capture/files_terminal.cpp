// SPDX-License-Identifier: Apache-2.0
// Terminals: pseudo-terminals made by the program come back with modes, size and queued data. The
// terminal that the program was started on becomes cr_restart's.
#include "capture/files.hpp"
#include "capture/session.hpp"

#include <algorithm>
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

// The kernel's termios2 conflicts with libc's <sys/ioctl.h>, so ioctl is declared here.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept;

namespace cryo::capture {

using image::FileKind;

namespace {

struct Size {
    unsigned short rows, columns, pixel_width, pixel_height;
};

std::string slave_path(uint32_t index)
{
    return fmt::format("/dev/pts/{}", index);
}

// The pseudo-terminal that /dev/tty stands for. −1: unknown.
int pseudo_terminal_behind(int fd)
{
    constexpr unsigned first = 136; // the major numbers of pseudo-terminals
    constexpr unsigned last = 143;
    unsigned device = 0;
    if (ioctl(fd, TIOCGDEV, &device) != 0 || major(device) < first || major(device) > last)
        return -1;
    return static_cast<int>((major(device) - first) * 256 + minor(device));
}

} // namespace

// If /dev/tty is a pseudo-terminal made by the program, treats it as if it had been opened by that
// terminal's name.
void Files::name_terminals()
{
    std::set<int> own;
    for (const Seen &seen : seen_) {
        unsigned index = 0;
        if (seen.kind == FileKind::pty_master && (seen.flags & O_PATH) == 0 &&
            ioctl(seen.shared.get(), TIOCGPTN, &index) == 0)
            own.insert(static_cast<int>(index));
    }
    for (Seen &seen : seen_) {
        if (seen.kind != FileKind::terminal || (seen.flags & O_PATH) != 0 ||
            seen.status.st_rdev != makedev(5, 0))
            continue;
        const int index = pseudo_terminal_behind(seen.shared.get());
        const std::string path = slave_path(static_cast<uint32_t>(index));
        struct stat status;
        if (own.count(index) != 0 && stat(path.c_str(), &status) == 0) {
            seen.link = path;
            seen.status = status;
        }
    }
}

Result<void> Files::read_terminals()
{
    std::set<std::string> slaves; // of masters that the program holds
    for (const Seen &seen : seen_) {
        if (seen.open_file == 0 || seen.kind != FileKind::pty_master || (seen.flags & O_PATH) != 0)
            continue;
        const int fd = seen.shared.get();
        image::Terminal record;
        record.file = record_of(seen).file;
        termios2 modes = {};
        Size size = {};
        int locked = 0;
        int packets = 0;
        unsigned index = 0;
        if (ioctl(fd, TIOCGPTN, &index) != 0 || ioctl(fd, TCGETS2, &modes) != 0 ||
            ioctl(fd, TIOCGWINSZ, &size) != 0 || ioctl(fd, TIOCGPTLCK, &locked) != 0 ||
            ioctl(fd, TIOCGPKT, &packets) != 0)
            return Error::from_errno("asking for the modes of a pseudo-terminal", errno);
        record.pty_index = index;
        record.input = modes.c_iflag;
        record.output = modes.c_oflag;
        record.control = modes.c_cflag;
        record.local = modes.c_lflag;
        record.discipline = modes.c_line;
        record.characters = image::as_bytes(
            strings_.keep(std::string(reinterpret_cast<char *>(modes.c_cc), sizeof(modes.c_cc))));
        record.input_speed = modes.c_ispeed;
        record.output_speed = modes.c_ospeed;
        record.rows = size.rows;
        record.columns = size.columns;
        record.pixel_width = size.pixel_width;
        record.pixel_height = size.pixel_height;
        record.locked = locked != 0;
        record.packet_mode = packets != 0;

        const std::string slave = slave_path(index);
        slaves.insert(slave);
        const bool held = std::any_of(seen_.begin(), seen_.end(),
                                      [&](const Seen &other) { return other.link == slave; });
        pollfd look = {fd, POLLIN, 0};
        poll(&look, 1, 0);
        record.hung_up = (look.revents & POLLHUP) != 0;
        if (record.hung_up && (look.revents & POLLIN) != 0)
            refuse(seen, "a pseudo-terminal whose other end is closed, with unread output",
                   "read it empty before the checkpoint", Passing::soon);
        else if (!held && !record.hung_up && !record.locked)
            refuse(seen,
                   fmt::format("a pseudo-terminal whose other end, {}, the program does not "
                               "hold",
                               slave),
                   "close it before the checkpoint");
        else if (held) {
            Result<AgentSession::TerminalContents> contents = session_of(seen).terminal(seen.fd);
            if (!contents)
                return contents.error();
            record.to_slave_size = contents->to_slave.size();
            record.to_master_size = contents->to_master.size();
            record.to_slave =
                copied(image::ObjectKind::terminal_queue, std::move(contents->to_slave));
            record.to_master =
                copied(image::ObjectKind::terminal_queue, std::move(contents->to_master));
        }
        records_.add(record);
    }
    for (const Seen &seen : seen_) {
        if (seen.open_file != 0 && (seen.flags & O_PATH) == 0 && seen.kind == FileKind::terminal &&
            slaves.count(seen.link) == 0 && !own_terminal(seen))
            refuse(seen, "another terminal than its own, " + seen.link,
                   "close it before the checkpoint");
    }
    return {};
}

} // namespace cryo::capture
