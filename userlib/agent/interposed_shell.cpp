// SPDX-License-Identifier: Apache-2.0
// system and popen: the C library executes a shell by internal functions that cannot be interposed.
// If the program has cleaned its environment, the shell first executes itself with what cr_run has
// put there (interposed_environment.cpp).
#include "agent/interposed.hpp"
#include "sys/raw.hpp"

#include <alloca.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo::agent {

namespace {

struct {
    int (*system)(const char *);
    FILE *(*popen)(const char *, const char *);
} real;

template <class F>
F known(F &function)
{
    return known_by(function, find_real_shell_functions);
}

constexpr size_t most = 128 << 10; // the kernel's limit for one argument
constexpr const char *again = "exec /bin/sh -c -- ";

// Quotes TEXT as one shell word; if `to` is null, only returns the length.
size_t quote(char *to, const char *text)
{
    size_t length = 0;
    const auto put = [&](const char *part, size_t size) {
        if (to != nullptr)
            memcpy(to + length, part, size);
        length += size;
    };
    put("'", 1);
    for (; *text != 0; text++)
        put(*text == '\'' ? "'\\''" : text, *text == '\'' ? 4 : 1);
    put("'", 1);
    return length;
}

// A command for a shell that is to get the variables missing in `environment`. If it would be too
// long, the program's own command; then that shell runs outside of Cryo.
class ShellCommand
{
  public:
    ShellCommand(const char *wanted, char *const *environment) : wanted_(wanted)
    {
        for (size_t i = 0; i < most_added && environment[i] != nullptr; i++) {
            if (is_added(environment[i]))
                ours_[i] = environment[i];
        }
        const size_t size = write(nullptr) + 1;
        if (size > most)
            return;
        const long made = sys::call(SYS_mmap, nullptr, most, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (sys::failed(made))
            return;
        text_ = reinterpret_cast<char *>(made);
        write(text_);
    }
    ~ShellCommand()
    {
        if (text_ != nullptr)
            sys::call(SYS_munmap, text_, most);
    }
    ShellCommand(const ShellCommand &) = delete;
    ShellCommand &operator=(const ShellCommand &) = delete;

    const char *text() const { return text_ != nullptr ? text_ : wanted_; }

  private:
    size_t write(char *to) const
    {
        size_t length = 0;
        const auto put = [&](const char *part, size_t size) {
            if (to != nullptr)
                memcpy(to + length, part, size);
            length += size;
        };
        for (const char *const variable : ours_) {
            if (variable == nullptr)
                continue;
            const char *const value = variable + strcspn(variable, "=") + 1;
            put("export ", 7);
            put(variable, static_cast<size_t>(value - variable));
            length += quote(to != nullptr ? to + length : nullptr, value);
            put("; ", 2);
        }
        put(again, strlen(again));
        return length + quote(to != nullptr ? to + length : nullptr, wanted_);
    }

    const char *wanted_;
    const char *ours_[most_added] = {}; // variables to add
    char *text_ = nullptr;              // zero-filled by the kernel
};

} // namespace

void find_real_shell_functions()
{
    find(real.system, "system");
    find(real.popen, "popen");
}

} // namespace cryo::agent

using namespace cryo::agent;

extern "C" {

CRYO_INTERPOSED int system(const char *command)
{
    const EnvironmentRoom room = room_for_environment(environ);
    if (command == nullptr || room.pointers == 0)
        return known(real.system)(command);
    char *const *kept = CRYO_KEPT_ENVIRONMENT(room, environ);
    const ShellCommand ours(command, kept);
    return known(real.system)(ours.text());
}

CRYO_INTERPOSED FILE *popen(const char *command, const char *type)
{
    const EnvironmentRoom room = room_for_environment(environ);
    if (command == nullptr || room.pointers == 0)
        return known(real.popen)(command, type);
    char *const *kept = CRYO_KEPT_ENVIRONMENT(room, environ);
    const ShellCommand ours(command, kept);
    return known(real.popen)(ours.text(), type);
}
}
