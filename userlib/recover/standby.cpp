// SPDX-License-Identifier: Apache-2.0
#include "recover/standby.hpp"

#include "base/fd.hpp"
#include "base/pipe.hpp"
#include "cli/text.hpp"
#include "look/available_memory.hpp"
#include "recover/decision.hpp"
#include "sys/page.hpp"

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace cryo::recover {

namespace {

constexpr int word_fd = 3;            // of the child
constexpr unsigned touch_s = 10;      // pages that are not locked are touched so often
constexpr char ends_first[] = "1000"; // when memory is short

// The files of one image, in memory as long as this process is there.
class Pages
{
  public:
    Result<void> map(const std::vector<std::string> &files, uint64_t most);
    // False: not all may be locked, so the kernel may drop those that nobody touches.
    bool lock() const;
    void touch() const;
    uint64_t bytes() const { return bytes_; }

  private:
    struct Mapped {
        const char *begin;
        size_t size;
    };

    std::vector<Mapped> mapped_;
    uint64_t bytes_ = 0;
};

Result<void> Pages::map(const std::vector<std::string> &files, uint64_t most)
{
    struct stat status = {};
    for (const std::string &path : files) {
        if (lstat(path.c_str(), &status) != 0)
            return Error::from_errno(path, errno);
        bytes_ += static_cast<uint64_t>(status.st_size);
    }
    if (bytes_ > most)
        return Error(ENOMEM, fmt::format("with all that it is based on it has {}, and the policy "
                                         "has memory = {}",
                                         cli::size_text(bytes_), cli::size_text(most)));
    if (const std::optional<uint64_t> there = capture::available_memory(); there && bytes_ > *there)
        return Error(ENOMEM, fmt::format("with all that it is based on it has {}, and {} of memory "
                                         "are available",
                                         cli::size_text(bytes_), cli::size_text(*there)));
    for (const std::string &path : files) {
        const Fd file(
            open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
        if (!file || fstat(file.get(), &status) != 0)
            return Error::from_errno(path, errno);
        const auto size = static_cast<size_t>(status.st_size);
        void *begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
        if (begin == MAP_FAILED)
            return Error::from_errno(path, errno);
        madvise(begin, size, MADV_WILLNEED); // all at once, instead of page by page
        mapped_.push_back({static_cast<const char *>(begin), size});
    }
    return {};
}

bool Pages::lock() const
{
    rlimit limit = {};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    bool all = true;
    for (const Mapped &one : mapped_)
        all = mlock(one.begin, one.size) == 0 && all;
    return all;
}

void Pages::touch() const
{
    for (const Mapped &one : mapped_) {
        for (size_t at = 0; at < one.size; at += sys::page_size)
            static_cast<void>(*static_cast<const volatile char *>(one.begin + at));
    }
}

// Holds nothing that the program, or whoever reads its output, may wait for, and gets no signal
// that is sent to the supervisor's group or terminal.
void step_aside(const Fd &word, const sigset_t &mask)
{
    prctl(PR_SET_NAME, "cryo standby");
    setsid();
    const int kept = fcntl(word.get(), F_DUPFD, word_fd + 1);
    const int nothing = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < word_fd; fd++)
        dup2(nothing, fd);
    dup2(kept, word_fd);
    close_range(word_fd + 1, ~0U, 0);
    if (chdir("/") != 0)
        _exit(1);
    const Fd wish(open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC));
    const ssize_t wished = write(wish.get(), ends_first, sizeof(ends_first) - 1);
    static_cast<void>(wished); // without it, it is one process among others
    sigprocmask(SIG_SETMASK, &mask, nullptr);
}

void say(const nlohmann::json &line)
{
    const std::string text =
        line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = write(word_fd, text.data() + done, text.size() - done);
        if (n < 0)
            _exit(1);
        done += static_cast<size_t>(n);
    }
    close(word_fd);
}

void hold_for_ever(const FindReads &find, uint64_t most)
{
    const Result<Reads> reads = find();
    if (!reads)
        return say({{"lacks", reads.error().text()}});
    if (reads->files.empty())
        return say({{"lacks",
                     fmt::format("it is read on {} alone", fmt::join(reads->other_nodes, ", "))}});
    Pages pages;
    if (Result<void> done = pages.map(reads->files, most); !done)
        return say({{"lacks", done.error().text()}});
    const bool locked = pages.lock();
    pages.touch();
    say({{"bytes", pages.bytes()}, {"locked", locked}, {"other_nodes", reads->other_nodes}});
    for (;;) {
        if (locked) {
            pause();
        } else {
            sleep(touch_s);
            pages.touch();
        }
    }
}

} // namespace

pid_t Standby::hold(const std::string &name, const FindReads &find, const sigset_t &mask)
{
    end();
    name_ = name;
    Result<PipeEnds> word = make_pipe();
    const pid_t supervisor = getpid();
    const pid_t child = word ? fork() : -1;
    if (child < 0) {
        lack((word ? Error::from_errno("fork", errno) : word.error()).text());
        return 0;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != supervisor)
            _exit(1);
        try {
            step_aside(word->write, mask);
            hold_for_ever(find, *most_);
        } catch (const std::exception &) {
            _exit(2);
        }
        _exit(0);
    }
    pid_ = child;
    word_.begin(std::move(word->read));
    return child;
}

bool Standby::read()
{
    told_.clear();
    const std::vector<nlohmann::json> lines = word_.read();
    for (const nlohmann::json &line : lines)
        take(line);
    return !lines.empty();
}

void Standby::take(const nlohmann::json &line)
{
    if (const auto lacks = line.find("lacks"); lacks != line.end() && lacks->is_string())
        return lack(lacks->get<std::string>());
    held_ = name_;
    bytes_ = static_cast<uint64_t>(number_in(line, "bytes").value_or(0));
    lacks_ = false;
    const auto nodes = line.find("other_nodes");
    const bool has_others = nodes != line.end() && nodes->is_array() && !nodes->empty();
    const bool locked = flag_in(line, "locked").value_or(false);
    if (has_remarked_ || (locked && !has_others))
        return;
    has_remarked_ = true;
    told_ = fmt::format("{} is held in memory{}{}", name_,
                        has_others
                            ? fmt::format(", but for what is read on {}",
                                          fmt::join(nodes->get<std::vector<std::string>>(), ", "))
                            : "",
                        locked ? ""
                               : "; the limit of locked memory (ulimit -l) is lower, so the system "
                                 "may drop what it needs room for");
}

// Told once, until an image is held again: there may be many images.
void Standby::lack(const std::string &why)
{
    if (!lacks_)
        told_ = fmt::format("{} is not held in memory, so that a recovery reads it from where it "
                            "is: {}",
                            name_, why);
    lacks_ = true;
}

bool Standby::waited_for(pid_t pid, int wait_status)
{
    if (pid == 0 || pid != pid_)
        return false;
    const bool said = read(); // its last word
    pid_ = 0;
    if (held_.empty() && wait_status == 0)
        return said;
    held_.clear();
    bytes_ = 0;
    lack(fmt::format("the process that was to hold it {}", end_text(wait_status)));
    return true;
}

// Without waiting for it: it is the supervisor's child, and may be reading from a server.
void Standby::end()
{
    if (pid_ > 0)
        kill(pid_, SIGKILL);
    pid_ = 0;
    word_.end();
    held_.clear();
    bytes_ = 0;
    told_.clear();
}

} // namespace cryo::recover
