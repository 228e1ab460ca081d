// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/early_look.hpp"

#include "base/clock.hpp"
#include "capture/memory/tracker.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

namespace cryo::capture {

namespace {

constexpr uint64_t worth_it_kib = 4 * 1024;

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

// The flags that a copy does not inherit, except "uw", which Cryo may have set. The last two belong
// to userfaultfd.
constexpr std::array<std::string_view, 6> copy_lacks = {"lo", "lf", "dc", "wf", "um", "ui"};
const std::span<const std::string_view> of_userfaultfd(copy_lacks.end() - 2, 2);

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

// Removes the flags "uw" and "sd"; the latter says that a mapping is new since its soft-dirty bits
// were last cleared.
std::string unwatched(std::string smaps)
{
    constexpr std::array<std::string_view, 2> flags = {" uw", " sd"};
    for (size_t at = 0; (at = smaps.find("\nVmFlags:", at)) != std::string::npos;) {
        ++at;
        for (const std::string_view flag : flags) {
            // Searches within the line only: there may be many thousands of lines.
            const size_t end = smaps.find('\n', at);
            const size_t found = std::string_view(smaps).substr(at, end - at).find(flag);
            if (found != std::string_view::npos)
                smaps.erase(at + found, flag.size());
        }
    }
    return smaps;
}

// Merges adjacent identical mappings, since the kernel joins them once both are watched.
std::string joined(std::string_view text)
{
    std::string all;
    std::string range, last_end, last_rest;
    const auto end_one = [&] {
        if (!last_end.empty())
            all += range + last_end + last_rest;
    };
    while (!text.empty()) {
        const std::string_view head = take_line(text);
        const size_t dash = head.find('-'), blank = head.find(' ');
        if (dash == std::string_view::npos || blank == std::string_view::npos || blank < dash)
            return all + std::string(text);
        const std::string start(head.substr(0, dash + 1)),
            end(head.substr(dash + 1, blank - dash - 1));
        std::string rest(head.substr(blank));
        const bool anonymous = rest.find(" 00000000 00:00 0") != std::string::npos;
        rest += '\n';
        while (!text.empty() && !is_head(text))
            rest.append(take_line(text)).push_back('\n');
        if (anonymous && rest == last_rest && last_end + '-' == start) {
            last_end = end;
            continue;
        }
        end_one();
        range = start;
        last_end = end;
        last_rest = rest;
    }
    end_one();
    return all;
}

bool others_watch(std::string_view smaps, const std::vector<Run> &watched)
{
    const auto is_ours = [&](const Run &mapping) {
        return !common_part({mapping}, watched).empty();
    };
    return has_any(smaps, of_userfaultfd) || !std::ranges::all_of(watched_mappings(smaps), is_ours);
}

// Maps each mapping's first line to its other lines.
std::map<std::string_view, std::string_view> by_head(std::string_view text)
{
    std::map<std::string_view, std::string_view> all;
    while (!text.empty()) {
        const std::string_view head = take_line(text);
        const std::string_view rest = text;
        while (!text.empty() && !is_head(text))
            take_line(text);
        all.emplace(head, rest.substr(0, rest.size() - text.size()));
    }
    return all;
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

bool agree(std::string_view before, std::string_view after)
{
    const std::map<std::string_view, std::string_view> then = by_head(before);
    return std::ranges::all_of(by_head(after), [&](const auto &now) {
        const auto found = then.find(now.first);
        return found == then.end() || found->second == now.second;
    });
}

EarlyLook EarlyLook::at(const Proc &proc)
{
    EarlyLook look;
    look.begun_ = now_ns();
    const Result<std::string> status = proc.read("status");
    if (!status || kib(*status, "VmRSS") + kib(*status, "VmSwap") < worth_it_kib)
        return look;
    Result<std::string> smaps = proc.read("smaps");
    if (!smaps || has_any(*smaps, copy_lacks))
        return look;
    look.early_ = lasting_part(*smaps);
    for (std::string_view rest = *smaps; !rest.empty();) {
        std::string_view line = take_line(rest);
        constexpr std::string_view huge = "AnonHugePages:";
        if (line.starts_with(huge)) {
            take_word(line);
            look.huge_pages_ += take_number(line) * 1024 / image::kPageSize;
        }
    }
    return look;
}

Result<std::string> EarlyLook::smaps(const Proc &proc, std::string_view status)
{
    if (!early_.empty()) {
        Result<std::string> maps = proc.read("maps");
        if (!maps)
            return maps;
        used_ = kib(status, "VmLck") == 0 && *maps == maps_part(early_);
        if (used_)
            return early_;
    }
    return proc.read("smaps");
}

Result<bool> EarlyLook::held(const Proc &proc, const Proc &copy,
                             const std::vector<Run> &watched) const
{
    if (!used_)
        return true;
    Result<std::string> smaps = copy.read("smaps");
    if (!smaps)
        return smaps.error();
    // A program that has ended meanwhile reports nothing. A mapping that we watch may have grown.
    const Result<std::string> now = proc.read("smaps");
    if (now && others_watch(*now, watched))
        return false;
    return joined(unwatched(lasting_part(*smaps))) == joined(unwatched(early_));
}

Result<bool> EarlyLook::held_in_stop(const Proc &proc, const std::vector<Run> &watched) const
{
    if (!used_)
        return true;
    const Result<std::string> smaps = proc.read("smaps");
    if (!smaps)
        return smaps.error();
    return !others_watch(*smaps, watched) &&
           joined(unwatched(lasting_part(*smaps))) == joined(unwatched(early_));
}

// The two clocks may differ, but run alike; the agent reads its own before we read ours.
void EarlyLook::hear(uint64_t since_advice)
{
    unadvised_ = !early_.empty() && since_advice > now_ns() - begun_;
}

Result<bool> EarlyLook::held_afterwards(const Proc &proc, const std::vector<Run> &watched) const
{
    const Result<std::string> smaps = proc.read("smaps");
    if (!smaps || smaps->empty())
        return true; // it has ended meanwhile
    return !others_watch(*smaps, watched) &&
           agree(joined(unwatched(early_)), joined(unwatched(lasting_part(*smaps))));
}

} // namespace cryo::capture
