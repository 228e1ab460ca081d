// SPDX-License-Identifier: Apache-2.0
#include "terminal.hpp"

#include "screen.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

namespace cryo::top {

namespace {

constexpr int in = STDIN_FILENO;
constexpr int out = STDOUT_FILENO;

// Takes the terminal's second screen, without a cursor, and without lines that go on in the next
// row.
constexpr const char *enter_text = "\033[?1049h\033[?25l\033[?7l";
constexpr const char *leave_text = "\033[?7h\033[?25h\033[?1049l";
constexpr const char *home = "\033[H";
constexpr const char *end_of_line = "\033[K";
constexpr const char *end_of_screen = "\033[J";

constexpr int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

sigset_t own_signals()
{
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : ending)
        sigaddset(&set, signal);
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGWINCH);
    return set;
}

void put(std::string_view text)
{
    while (!text.empty()) {
        const ssize_t n = write(out, text.data(), text.size());
        if (n < 0 && errno != EINTR)
            return; // the terminal is gone, which the next await() finds
        text.remove_prefix(n > 0 ? static_cast<size_t>(n) : 0);
    }
}

winsize size_of_terminal()
{
    winsize size = {};
    if (ioctl(out, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) {
        size.ws_row = 24;
        size.ws_col = 80;
    }
    return size;
}

} // namespace

Result<Terminal> Terminal::take()
{
    termios before = {};
    if (isatty(out) == 0)
        return Error(ENOTTY, "standard output is no terminal: --batch prints text, and --once a "
                             "single time");
    if (tcgetattr(in, &before) != 0)
        return Error(ENOTTY, "standard input is no terminal, from which keys could come: --batch "
                             "prints text without it");
    Terminal terminal(before);
    const sigset_t set = own_signals();
    sigprocmask(SIG_BLOCK, &set, nullptr);
    terminal.signals_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!terminal.signals_)
        return Error::from_errno("signalfd", errno);
    terminal.enter();
    terminal.entered_ = true;
    return terminal;
}

Terminal::Terminal(Terminal &&other) noexcept
    : before_(other.before_), signals_(std::move(other.signals_)),
      entered_(std::exchange(other.entered_, false))
{}

Terminal::~Terminal()
{
    if (entered_)
        leave();
}

void Terminal::enter() const
{
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO); // ^C and ^Z are signals all the same
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(in, TCSADRAIN, &raw);
    put(enter_text);
}

void Terminal::leave() const
{
    put(leave_text);
    tcsetattr(in, TCSADRAIN, &before_);
}

void Terminal::show(const std::vector<std::string> &lines) const
{
    const winsize size = size_of_terminal();
    std::string text = home;
    for (size_t i = 0; i < lines.size() && i < size.ws_row; i++)
        text +=
            fmt::format("{}{}{}", i == 0 ? "" : "\r\n", cut(lines[i], size.ws_col), end_of_line);
    put(text + end_of_screen);
}

// As by its default action, with the terminal as it was before, until the command is continued.
void Terminal::stop()
{
    leave();
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &only, nullptr); // stands still here
    sigprocmask(SIG_BLOCK, &only, nullptr);
    enter();
}

Event Terminal::take_signal()
{
    signalfd_siginfo info = {};
    if (read(signals_.get(), &info, sizeof(info)) != sizeof(info))
        return Event::resized; // nothing, after all: the screen is shown again
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP)
        stop();
    if (signal == SIGTSTP || signal == SIGWINCH)
        return Event::resized;
    ended_by_ = signal;
    return Event::ended;
}

Event Terminal::await(int milliseconds)
{
    pollfd ready[] = {{in, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
    const int found = poll(ready, std::size(ready), milliseconds);
    if (found == 0 || (found < 0 && errno == EINTR))
        return Event::timeout;
    if (found < 0)
        return Event::ended;
    if (ready[1].revents != 0)
        return take_signal();
    return read(in, &key_, 1) == 1 ? Event::key : Event::ended;
}

} // namespace cryo::top
