// SPDX-License-Identifier: Apache-2.0
// RULE for this file: it runs in ranks, perhaps in a signal handler: raw system calls, and of libc
// only functions on strings.
#include "coord/place.hpp"

#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <cstring>
#include <sys/stat.h>
#include <sys/utsname.h>

namespace cryo::coord {

namespace {

// Text assembled in a buffer; once a part did not fit, fits() stays false.
class Text
{
  public:
    Text(char *to, size_t size) : to_(to), size_(size) { to_[0] = 0; }
    Text &add(const char *text, size_t length)
    {
        if (used_ + length + 1 > size_) {
            fits_ = false;
            return *this;
        }
        memcpy(to_ + used_, text, length);
        used_ += length;
        to_[used_] = 0;
        return *this;
    }
    Text &add(const char *text) { return add(text, strlen(text)); }
    Text &add(unsigned long number)
    {
        char digits[24];
        size_t at = sizeof(digits);
        do {
            digits[--at] = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number != 0);
        return add(digits + at, sizeof(digits) - at);
    }
    bool fits() const { return fits_; }

  private:
    char *to_;
    size_t size_;
    size_t used_ = 0;
    bool fits_ = true;
};

} // namespace

const char *variable(const char *const *environment, const char *name)
{
    return sys::own_variable(environment, name);
}

// Whether no other user can have put anything there.
static bool is_private(const char *path, unsigned uid)
{
    struct stat status = {};
    return !sys::failed(sys::call(SYS_stat, path, &status)) && S_ISDIR(status.st_mode) &&
           status.st_uid == uid && (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

// Whether the system removes it when the user logs out, though jobs of that user go on.
static bool ends_with_login(const char *path)
{
    constexpr char logins[] = "/run/user/";
    return strncmp(path, logins, sizeof(logins) - 1) == 0;
}

bool runtime_directory(const char *const *environment, unsigned uid, char *path, size_t size)
{
    if (const char *own = variable(environment, "CRYO_RUNTIME_DIR"); own != nullptr && *own == '/')
        return Text(path, size).add(own).fits();
    const char *of_user = variable(environment, "XDG_RUNTIME_DIR");
    if (of_user != nullptr && *of_user == '/' && !ends_with_login(of_user) &&
        is_private(of_user, uid) && Text(path, size).add(of_user).add("/cryo").fits())
        return true;
    return Text(path, size).add(common_runtime).add(static_cast<unsigned long>(uid)).fits();
}

bool runtime_directory(const char *const *environment, char *path, size_t size)
{
    return runtime_directory(environment, static_cast<unsigned>(sys::call(SYS_geteuid)), path,
                             size);
}

bool job_directory(const char *const *environment, char *path, size_t size)
{
    const char *job = variable(environment, job_variable);
    const char *end = job != nullptr ? strchr(job, ':') : nullptr;
    if (end == nullptr || end == job ||
        memchr(job, '/', static_cast<size_t>(end - job)) != nullptr ||
        !runtime_directory(environment, path, size))
        return false;
    const size_t used = strlen(path);
    return Text(path + used, size - used).add("/").add(job, static_cast<size_t>(end - job)).fits();
}

bool node_name(const char *const *environment, char *name, size_t size)
{
    if (const char *own = variable(environment, "CRYO_NODE"); own != nullptr && *own != 0)
        return strchr(own, '/') == nullptr && Text(name, size).add(own).fits();
    utsname host = {};
    sys::call(SYS_uname, &host);
    return Text(name, size).add(host.nodename).fits();
}

bool node_socket(const char *const *environment, char *path, size_t size)
{
    char name[128];
    if (!job_directory(environment, path, size) || !node_name(environment, name, sizeof(name)))
        return false;
    const size_t used = strlen(path);
    return Text(path + used, size - used).add("/").add(static_cast<const char *>(name)).fits();
}

bool daemon_path(const char *const *environment, char *path, size_t size)
{
    const char *daemon = variable(environment, "CRYO_DAEMON");
    return daemon != nullptr && *daemon == '/' && Text(path, size).add(daemon).fits();
}

} // namespace cryo::coord
