// SPDX-License-Identifier: Apache-2.0
// Terminals: pseudo-terminals made by the program come back with modes, size and queued data, and
// with the same number where that is free. The terminal that the program was started on becomes
// cr_restart's.
#include "resources/terminal.hpp"

#include "base/undoing.hpp"
#include "resources/every_kind.hpp"
#include "resources/reopening.hpp"
#include "sys/terminal_queue.hpp"

#include <algorithm>
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <set>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <vector>

// The kernel's termios2 conflicts with libc's <sys/ioctl.h>, so ioctl is declared here.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept;

namespace cryo::resources {

using image::FileKind;
using restore::value;

namespace {

bool is_pty_master(const Seen &seen)
{
    const dev_t number = seen.status.st_rdev;
    return seen.link.starts_with('/') && S_ISCHR(seen.status.st_mode) && major(number) == 5 &&
           minor(number) == 2;
}

bool is_terminal(const Seen &seen)
{
    const unsigned number = major(seen.status.st_rdev);
    return seen.link.starts_with('/') && S_ISCHR(seen.status.st_mode) &&
           (number == 4 || number == 5 || (number >= 136 && number < 144));
}

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

// If /dev/tty is a pseudo-terminal made by the program, treats it as if it had been opened by that
// terminal's name.
void rename(std::vector<Seen> &all)
{
    std::set<int> own;
    for (const Seen &seen : all) {
        unsigned index = 0;
        if (seen.kind == FileKind::pty_master && (seen.flags & O_PATH) == 0 &&
            ioctl(seen.shared.get(), TIOCGPTN, &index) == 0)
            own.insert(static_cast<int>(index));
    }
    for (Seen &seen : all) {
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

// The terminals on which the program was started, judged by its descriptors: device numbers.
std::set<dev_t> own_terminals(const Saving &saving)
{
    std::set<dev_t> own = {makedev(5, 0)};
    for (const Seen *seen : saving.standard()) {
        struct stat opened; // the status of /dev/tty may be that of the terminal behind it by now
        if (seen->kind == FileKind::terminal && fstat(seen->shared.get(), &opened) == 0)
            own.insert(opened.st_rdev);
    }
    return own;
}

// While its exclusive mode (TIOCEXCL) is off, a plain user, too, may open the terminal once more.
// It comes on again if this process is killed, too: another one could open the terminal of a
// program that believes to have it for itself.
class Shared
{
  public:
    explicit Shared(int slave)
    {
        int exclusive = 0;
        if (ioctl(slave, TIOCGEXCL, &exclusive) != 0 || exclusive == 0)
            return;
        const auto undo = [slave] { ioctl(slave, TIOCEXCL); };
        after_a_kill_.emplace("cr_terminal", std::vector<int>{slave}, undo);
        if (ioctl(slave, TIOCNXCL) == 0)
            slave_ = slave;
    }
    ~Shared()
    {
        if (was_exclusive())
            ioctl(slave_, TIOCEXCL);
    }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

    bool was_exclusive() const { return slave_ >= 0; }

  private:
    int slave_ = -1;
    std::optional<Undoing> after_a_kill_;
};

Result<void> save_all(Saving &saving)
{
    std::set<std::string> slaves; // of masters that the program holds
    for (const Seen &seen : saving.seen()) {
        if (seen.open_file == 0 || seen.kind != FileKind::pty_master || (seen.flags & O_PATH) != 0)
            continue;
        const int fd = seen.shared.get();
        image::Terminal record;
        record.file = saving.file(seen).id;
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
            saving.keep(std::string(reinterpret_cast<char *>(modes.c_cc), sizeof(modes.c_cc))));
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
        bool held = false;
        int other_end = -1;
        for (const Seen &other : saving.seen()) {
            held = held || other.link == slave;
            if (other.link == slave && (other.flags & O_PATH) == 0)
                other_end = other.shared.get();
        }
        pollfd look = {fd, POLLIN, 0};
        poll(&look, 1, 0);
        record.hung_up = (look.revents & POLLHUP) != 0;
        if (record.hung_up && (look.revents & POLLIN) != 0)
            saving.refuse(seen, "a pseudo-terminal whose other end is closed, with unread output",
                          "read all of it before the checkpoint", capture::Passing::soon);
        else if (!held && !record.hung_up && !record.locked)
            saving.refuse(
                seen,
                fmt::format("a pseudo-terminal whose other end, {}, the program does not have open",
                            slave),
                "close it before the checkpoint");
        else if (held) {
            const Shared shared(other_end);
            record.exclusive = shared.was_exclusive();
            Result<TerminalContents> contents = saving.terminal(seen);
            if (!contents)
                return contents.error();
            record.to_slave_size = contents->to_slave.size();
            record.to_master_size = contents->to_master.size();
            record.to_slave =
                saving.copied(image::ObjectKind::terminal_queue, std::move(contents->to_slave));
            record.to_master =
                saving.copied(image::ObjectKind::terminal_queue, std::move(contents->to_master));
        }
        saving.records().add(record);
    }
    const std::set<dev_t> own = own_terminals(saving);
    for (const Seen &seen : saving.seen()) {
        if (seen.open_file != 0 && (seen.flags & O_PATH) == 0 && seen.kind == FileKind::terminal &&
            slaves.count(seen.link) == 0 && !own.contains(seen.status.st_rdev))
            saving.refuse(seen, "a terminal other than its own, " + seen.link,
                          "close it before the checkpoint");
    }
    return {};
}

// The kernel assigns the lowest free number: terminals with lower numbers are kept open until the
// wanted number is assigned.
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

Result<void> open_pair(Opening &opening, const image::Terminal &saved)
{
    unsigned number = 0;
    Result<Fd> master = make_master(saved.pty_index, number);
    if (!master)
        return master.error();
    if (number != saved.pty_index)
        opening.notice(
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

    const std::string path = slave_path(saved.pty_index);
    bool held = false;
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        const image::File &file = opening.of<image::File>().at(open_file.file);
        if (file.kind != FileKind::terminal || file.path != path || (open_file.flags & O_PATH) != 0)
            continue;
        held = true;
        if (opening.is_opened(id))
            continue; // the user has redirected it
        Fd slave(
            ioctl(fd, TIOCGPTPEER,
                  static_cast<int>((open_file.flags & ~creation_flags) | O_NOCTTY | O_CLOEXEC)));
        if (!slave)
            return Error::from_errno("opening the other end of a pseudo-terminal", errno);
        give_owner(file, slave.get());
        if (Result<void> kept = opening.keep(std::move(slave), id); !kept)
            return kept;
    }
    if (saved.to_slave_size > 0 || saved.to_master_size > 0 || saved.hung_up) {
        const Fd slave(ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
        Result<std::string> to_slave = opening.contents(saved.to_slave, saved.to_slave_size);
        Result<std::string> to_master = opening.contents(saved.to_master, saved.to_master_size);
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
    for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
        if (open_file.file != saved.file || opening.is_opened(id))
            continue;
        if (Result<void> set = set_flags(fd, open_file.flags, "a pseudo-terminal"); !set)
            return set;
        if (Result<void> kept = opening.keep(std::move(*master), id); !kept)
            return kept;
        break; // each master is an open file of its own
    }
    return {};
}

Result<void> open_terminals(Opening &opening)
{
    for (const auto &[file, terminal] : opening.of<image::Terminal>()) {
        if (Result<void> done = open_pair(opening, terminal); !done)
            return done;
    }
    return {};
}

// Last, since from then on nobody but root opens it.
void finish(Opening &opening)
{
    restore::Program &program = opening.program();
    for (const auto &[master, terminal] : opening.of<image::Terminal>()) {
        if (!terminal.exclusive)
            continue;
        for (const auto &[id, open_file] : opening.of<image::OpenFile>()) {
            const image::File &file = opening.of<image::File>().at(open_file.file);
            if (file.kind == FileKind::terminal && file.path == slave_path(terminal.pty_index) &&
                (open_file.flags & O_PATH) == 0 && opening.cares_for(id) &&
                !opening.is_redirected(id))
                program.call("making a pseudo-terminal exclusive", SYS_ioctl,
                             {value(opening.descriptor(id)), value(TIOCEXCL)});
        }
    }
}

} // namespace

Result<Fd> open_other_end(int master, const image::Terminal &saved)
{
    const int unlocked = 0;
    const int locked = saved.locked ? 1 : 0;
    ioctl(master, TIOCSPTLCK, &unlocked);
    Fd slave(ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!slave || ioctl(master, TIOCSPTLCK, &locked) != 0)
        return Error::from_errno("opening the other end of a pseudo-terminal", errno);
    return slave;
}

// All that is done to masters is done to the other ends with them.
const Kind pty_master_kind = {
    .is = is_pty_master,
    .has_own_file = true,
    .only_of_processes = "a terminal,",
    .rename = rename,
    .save_all = save_all,
    .open = open_terminals,
    .finish = finish,
};
const Kind terminal_kind = {.is = is_terminal, .only_of_processes = "a terminal,"};

} // namespace cryo::resources
