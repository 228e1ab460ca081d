// SPDX-License-Identifier: Apache-2.0
// Pseudo-terminals that the program made: a new one with the same number where that is free, with
// the saved modes, size and queues.
#include "restore/open_parts.hpp"

#include "sys/terminal_queue.hpp"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

// The kernel's termios2 and libc's <sys/ioctl.h> cannot be included in one source.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept;

namespace cryo::restore {

using image::FileKind;

namespace {

struct Size {
    unsigned short rows, columns, pixel_width, pixel_height;
};

// The kernel gives the lowest free number: those below the wanted one are held until it comes.
Result<Fd> make_master(uint32_t wished, unsigned &number)
{
    constexpr size_t most = 64;
    std::vector<Fd> below;
    for (;;) {
        Fd master(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
        if (!master || ioctl(master.get(), TIOCGPTN, &number) != 0)
            return Error::from_errno("making a pseudo-terminal", errno);
        if (number >= wished || below.size() == most)
            return master;
        below.push_back(std::move(master));
    }
}

termios2 modes_of(const image::Terminal &saved)
{
    termios2 modes = {};
    modes.c_iflag = saved.input;
    modes.c_oflag = saved.output;
    modes.c_cflag = saved.control;
    modes.c_lflag = saved.local;
    modes.c_line = static_cast<unsigned char>(saved.discipline);
    memcpy(modes.c_cc, saved.characters.data(),
           std::min(sizeof(modes.c_cc), saved.characters.size()));
    modes.c_ispeed = saved.input_speed;
    modes.c_ospeed = saved.output_speed;
    return modes;
}

// Owner and mode as grantpt(3) or the program set them. Only root may
// change the owner; a program that may not could not have done so before.
void give_owner(const image::File &saved, int slave)
{
    struct stat now;
    if (fstat(slave, &now) != 0)
        return;
    if ((now.st_uid != saved.uid || now.st_gid != saved.gid) &&
        fchown(slave, saved.uid, saved.gid) != 0)
        return;
    if (((now.st_mode ^ saved.mode) & 07777) != 0 && fchmod(slave, saved.mode & 07777) != 0)
        return;
}

Result<void> open_pair(Planning &p, const image::Terminal &saved)
{
    unsigned number = 0;
    Result<Fd> master = make_master(saved.pty_index, number);
    if (!master)
        return master.error();
    if (number != saved.pty_index)
        p.plan.notices.push_back(
            fmt::format("pseudo-terminal /dev/pts/{} is /dev/pts/{} now", saved.pty_index, number));
    const int fd = master->get();
    const int unlocked = 0;
    const Size size = {static_cast<unsigned short>(saved.rows),
                       static_cast<unsigned short>(saved.columns),
                       static_cast<unsigned short>(saved.pixel_width),
                       static_cast<unsigned short>(saved.pixel_height)};
    const termios2 modes = modes_of(saved);
    if (ioctl(fd, TIOCSPTLCK, &unlocked) != 0 || ioctl(fd, TIOCSWINSZ, &size) != 0 ||
        ioctl(fd, TCSETS2, &modes) != 0)
        return Error::from_errno("setting the modes of a pseudo-terminal", errno);

    const std::string path = fmt::format("/dev/pts/{}", saved.pty_index);
    bool held = false;
    for (const auto &[id, open_file] : p.saved.open_files()) {
        const image::File &file = p.saved.files().at(open_file.file);
        if (file.kind != FileKind::terminal || file.path != path || (open_file.flags & O_PATH) != 0)
            continue;
        held = true;
        Fd slave(
            ioctl(fd, TIOCGPTPEER,
                  static_cast<int>((open_file.flags & ~creation_flags) | O_NOCTTY | O_CLOEXEC)));
        if (!slave)
            return Error::from_errno("opening the other end of a pseudo-terminal", errno);
        give_owner(file, slave.get());
        if (Result<int> kept = keep_open(p, std::move(slave), id); !kept)
            return kept.error();
    }
    if (saved.to_slave_size > 0 || saved.to_master_size > 0 || saved.hung_up) {
        const Fd slave(ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
        Result<std::string> to_slave = small_contents(p, saved.to_slave, saved.to_slave_size);
        Result<std::string> to_master = small_contents(p, saved.to_master, saved.to_master_size);
        if (!to_slave || !to_master)
            return !to_slave ? to_slave.error() : to_master.error();
        const sys::TerminalQueues queues = {
            to_slave->data(), static_cast<uint32_t>(to_slave->size()), to_master->data(),
            static_cast<uint32_t>(to_master->size()), 0};
        const long result = held ? sys::put_queues(fd, slave.get(), queues, modes) : 0;
        if (sys::failed(result))
            return Error::from_errno("filling a pseudo-terminal", static_cast<int>(-result));
    }
    const int locked = saved.locked ? 1 : 0;
    const int packets = saved.packet_mode ? 1 : 0;
    if (ioctl(fd, TIOCSPTLCK, &locked) != 0 || ioctl(fd, TIOCPKT, &packets) != 0)
        return Error::from_errno("setting the modes of a pseudo-terminal", errno);
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (open_file.file != saved.file || is_opened(p, id))
            continue;
        if (Result<void> set = set_flags(fd, open_file.flags, "a pseudo-terminal"); !set)
            return set;
        if (Result<int> kept = keep_open(p, std::move(*master), id); !kept)
            return kept.error();
        break; // each master is an open file of its own
    }
    return {};
}

} // namespace

Result<int> open_other_end(Planning &p, int fd, const image::Terminal &saved)
{
    const int unlocked = 0;
    const int locked = saved.locked ? 1 : 0;
    ioctl(fd, TIOCSPTLCK, &unlocked);
    Fd slave(ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!slave || ioctl(fd, TIOCSPTLCK, &locked) != 0)
        return Error::from_errno("opening the other end of a pseudo-terminal", errno);
    return keep_open(p, std::move(slave), 0);
}

Result<void> open_terminals(Planning &p)
{
    for (const auto &[file, terminal] : p.saved.of<image::Terminal>()) {
        if (Result<void> done = open_pair(p, terminal); !done)
            return done;
    }
    return {};
}

} // namespace cryo::restore
