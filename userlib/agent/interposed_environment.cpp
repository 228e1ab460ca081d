// SPDX-License-Identifier: Apache-2.0
// Passes what cr_run has put into the environment on to programs that are executed with another
// environment, or with none: env -i, a login, a daemon that cleans up. May be called in a child of
// vfork and in signal handlers, so the result lies on the calling function's stack.
#include "agent/interposed.hpp"

#include <cstring>

namespace cryo::agent {

namespace {

constexpr const char *preload = "LD_PRELOAD=";
constexpr const char *signal_number = "CRYO_SIGNAL=";
constexpr const char *filter_count = "CRYO_FILTERS="; // look/filters.hpp
constexpr const char *outside = "CRYO_OUTSIDE="; // set for Cryo's own commands: nothing is added

// Copies, as the program may overwrite its initial environment. Empty: there was none.
char library[4096];  // the agent
char stand_in[4096]; // has MPI's functions
char signal_variable[32];
bool has_moved; // the signal is no longer the one that cr_run chose
char filters_variable[32];

// The environment that cr_checkpoint records in the image. The choice of a CPU is worth nothing
// without the settings of the C library that make it so: both are passed on, or none.
struct Note {
    const char *name;
    char text[4096];
};
Note inherited{"CRYO_INHERITED=", {}};
Note processor{"CRYO_CPU=", {}};
Note tunables{"GLIBC_TUNABLES=", {}};

bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *find(char *const *environment, const char *name)
{
    for (; environment != nullptr && *environment != nullptr; environment++) {
        if (begins(*environment, name))
            return *environment;
    }
    return nullptr;
}

size_t count_of(char *const *environment)
{
    size_t count = 0;
    while (environment != nullptr && environment[count] != nullptr)
        count++;
    return count;
}

} // namespace

namespace {

void remember(Note &note, char *const *environment)
{
    const char *text = find(environment, note.name);
    if (text != nullptr && strlen(text) < sizeof(note.text))
        memcpy(note.text, text, strlen(text) + 1);
}

bool lacks(const Note &note, char *const *environment)
{
    return *note.text != 0 && find(environment, note.name) == nullptr;
}

} // namespace

namespace {

void keep(char (&copy)[4096], const char *path, size_t length)
{
    if (*copy == 0 && length < sizeof(copy))
        memcpy(copy, path, length);
}

} // namespace

// Finds Cryo's own among the preloaded libraries.
void remember_environment(char *const *environment)
{
    const char *all = find(environment, preload);
    for (const char *at = all != nullptr ? all + strlen(preload) : ""; *at != 0;) {
        const size_t length = strcspn(at, ": ");
        const char *const name = static_cast<const char *>(memrchr(at, '/', length));
        if (name != nullptr && begins(name, "/libcr_"))
            keep(library, at, length);
        if (name != nullptr && begins(name, "/libcryo_"))
            keep(stand_in, at, length);
        at += length + strspn(at + length, ": ");
    }
    const char *number = find(environment, signal_number);
    if (number != nullptr && strlen(number) < sizeof(signal_variable))
        memcpy(signal_variable, number, strlen(number) + 1);
    remember(inherited, environment);
    remember(processor, environment);
    remember(tunables, environment);
}

// A blocked signal may be pending across exec: the new program's agent must use the same one.
void remember_signal(int number)
{
    char *end = stpcpy(signal_variable, signal_number);
    *end++ = static_cast<char>('0' + number / 10);
    *end++ = static_cast<char>('0' + number % 10);
    *end = 0;
    has_moved = true;
}

namespace {

bool has(const char *present, const char *ours)
{
    return present != nullptr && strstr(present, ours) != nullptr;
}

// Also where there is no stand-in.
bool has_libraries(const char *present)
{
    return has(present, library) && has(present, stand_in);
}

bool has_signal(char *const *environment)
{
    const char *number = find(environment, signal_number);
    return !has_moved || (number != nullptr && strcmp(number, signal_variable) == 0);
}

// In cr_run's order: the agent, what others preload, the stand-in.
char *write_preload(char *text, const char *present)
{
    char *const begin = stpcpy(text, preload);
    char *end = begin;
    const auto append = [&](const char *more) {
        if (*more != 0)
            end = stpcpy(end == begin ? end : stpcpy(end, ":"), more);
    };
    if (!has(present, library))
        append(library);
    append(present != nullptr ? present + strlen(preload) : "");
    if (!has(present, stand_in))
        append(stand_in);
    return text;
}

// A restart may have brought the program under other filters.
bool has_filters(char *const *environment)
{
    const char *const text = find(environment, filter_count);
    unsigned count = 0;
    for (const char *at = text != nullptr ? text + strlen(filter_count) : ""; *at != 0; at++)
        count = count * 10 + static_cast<unsigned>(*at - '0');
    return count == static_cast<unsigned>(known_filters());
}

bool lacks_confinement(char *const *environment)
{
    return is_confined() && find(environment, confined_variable) == nullptr;
}

// Writes what is there already, if another thread does so, too.
char *write_filters()
{
    char digits[4] = {};
    char *first = &digits[3];
    int left = known_filters();
    do {
        *--first = static_cast<char>('0' + left % 10);
        left /= 10;
    } while (left != 0);
    stpcpy(stpcpy(filters_variable, filter_count), first);
    return filters_variable;
}

} // namespace

bool is_added(const char *variable)
{
    return begins(variable, preload) || variable == signal_variable ||
           variable == filters_variable || variable == inherited.text ||
           variable == processor.text || variable == tunables.text || variable == confined_variable;
}

EnvironmentRoom room_for_environment(char *const *environment)
{
    const char *present = find(environment, preload);
    if (*library == 0 ||
        (has_libraries(present) && has_signal(environment) && has_filters(environment) &&
         !lacks_confinement(environment)) ||
        find(environment, outside) != nullptr)
        return {};
    const size_t others = present != nullptr ? strlen(present) : 0;
    return {count_of(environment) + most_added + 1,
            strlen(preload) + strlen(library) + others + strlen(stand_in) + 3};
}

char *const *add_to_environment(char *const *environment, char **pointers, char *text)
{
    char **to = pointers;
    *to++ = write_preload(text, find(environment, preload));
    const bool replaced = has_moved && find(environment, signal_number) != nullptr;
    if (*signal_variable != 0 && (replaced || find(environment, signal_number) == nullptr))
        *to++ = signal_variable;
    const bool recounted = !has_filters(environment);
    if (recounted)
        *to++ = write_filters();
    if (lacks_confinement(environment))
        *to++ = const_cast<char *>(confined_variable);
    if (lacks(inherited, environment))
        *to++ = inherited.text;
    if (lacks(processor, environment) && lacks(tunables, environment)) {
        *to++ = processor.text;
        *to++ = tunables.text;
    }
    for (size_t i = 0; i < count_of(environment); i++) {
        if (!begins(environment[i], preload) &&
            !(replaced && begins(environment[i], signal_number)) &&
            !(recounted && begins(environment[i], filter_count)))
            *to++ = environment[i];
    }
    *to = nullptr;
    return pointers;
}

} // namespace cryo::agent
