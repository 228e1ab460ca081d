// SPDX-License-Identifier: Apache-2.0
#include "capture/early_look.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace cryo::capture {

namespace {

constexpr uint64_t worth_it_kib = 16 * 1024;

bool is_head(std::string_view line)
{
    return !line.empty() &&
           ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f'));
}

template <class Wanted>
std::string lines_of(std::string_view text, const Wanted &wanted)
{
    std::string chosen;
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        if (wanted(line))
            chosen.append(line).push_back('\n');
    }
    return chosen;
}

// What a copy does not inherit. The last three are of userfaultfd.
constexpr std::array<std::string_view, 7> copy_lacks = {"lo", "lf", "dc", "wf", "um", "uw", "ui"};
const std::span<const std::string_view> of_userfaultfd(copy_lacks.end() - 3, 3);

bool has_any(std::string_view smaps, std::span<const std::string_view> flags)
{
    while (!smaps.empty()) {
        std::string_view line = take_line(smaps);
        if (!line.starts_with("VmFlags:"))
            continue;
        take_word(line);
        while (!line.empty()) {
            if (std::ranges::count(flags, take_word(line)) != 0)
                return true;
        }
    }
    return false;
}

uint64_t kib(std::string_view status, std::string_view key)
{
    std::string_view text = field(status, key);
    return take_number(text);
}

} // namespace

std::string lasting_part(std::string_view smaps)
{
    return lines_of(smaps, [](std::string_view line) {
        return is_head(line) || line.starts_with("KernelPageSize:") ||
               line.starts_with("ProtectionKey:") || line.starts_with("VmFlags:");
    });
}

std::string maps_part(std::string_view smaps)
{
    return lines_of(smaps, is_head);
}

EarlyLook EarlyLook::at(const Proc &proc)
{
    EarlyLook look;
    const Result<std::string> status = proc.read("status");
    if (!status || kib(*status, "VmRSS") + kib(*status, "VmSwap") < worth_it_kib)
        return look;
    Result<std::string> smaps = proc.read("smaps");
    if (smaps && !has_any(*smaps, copy_lacks))
        look.early_ = lasting_part(*smaps);
    return look;
}

Result<std::string> EarlyLook::smaps(const Proc &proc)
{
    if (!early_.empty()) {
        Result<std::string> status = proc.read("status");
        Result<std::string> maps = proc.read("maps");
        if (!status || !maps)
            return status ? maps : status;
        used_ = kib(*status, "VmLck") == 0 && *maps == maps_part(early_);
        if (used_)
            return early_;
    }
    return proc.read("smaps");
}

Result<bool> EarlyLook::held(const Proc &proc, const Proc &copy) const
{
    if (!used_)
        return true;
    Result<std::string> smaps = copy.read("smaps");
    if (!smaps)
        return smaps.error();
    // A program that has ended meanwhile tells nothing any more.
    const Result<std::string> now = proc.read("smaps");
    return lasting_part(*smaps) == early_ && (!now || !has_any(*now, of_userfaultfd));
}

} // namespace cryo::capture
