// SPDX-License-Identifier: Apache-2.0
#include "resources/kinds.hpp"

#include "resources/every_kind.hpp"

#include <algorithm>
#include <array>

namespace cryo::resources {

using image::FileKind;

namespace {

struct Row {
    FileKind kind;
    const Kind *how;
};

// In the order of the list.
#define CRYO_ROW(name, number, shown) Row{FileKind::name, &name##_kind},
constexpr std::array table = {CRYO_FILE_KINDS(CRYO_ROW)};
#undef CRYO_ROW

// Each number up to the highest is one kind's.
static_assert([] {
    for (uint32_t kind = 0; kind < image::kFileKinds; kind++) {
        if (std::ranges::count(table, static_cast<FileKind>(kind), &Row::kind) != 1)
            return false;
    }
    return true;
}());

bool is(const Kind &kind, const Seen &seen)
{
    return kind.is != nullptr ? kind.is(seen) : seen.link == kind.link;
}

} // namespace

const Kind &kind(FileKind kind)
{
    const auto row = std::ranges::find(table, kind, &Row::kind);
    return row != table.end() ? *row->how : other_kind;
}

FileKind kind_of(const Seen &seen)
{
    const auto row =
        std::ranges::find_if(table, [&](const Row &one) { return is(*one.how, seen); });
    return row->kind; // the last recognises everything
}

void rename_all(std::vector<Seen> &all)
{
    for (const Row &row : table) {
        if (row.how->rename != nullptr)
            row.how->rename(all);
    }
}

Result<void> settle_all(Saving &saving)
{
    for (const Row &row : table) {
        if (row.how->settle == nullptr)
            continue;
        if (Result<void> done = row.how->settle(saving); !done)
            return done;
    }
    return {};
}

Result<void> save_all_together(Saving &saving)
{
    for (const Row &row : table) {
        if (row.how->save_all == nullptr)
            continue;
        if (Result<void> done = row.how->save_all(saving); !done)
            return done;
    }
    return {};
}

Result<void> open_all(Opening &opening)
{
    for (const Row &row : table) {
        if (row.how->open == nullptr)
            continue;
        if (Result<void> done = row.how->open(opening); !done)
            return done;
    }
    return {};
}

Result<void> place_all(Opening &opening)
{
    for (const Row &row : table) {
        if (row.how->place == nullptr)
            continue;
        if (Result<void> done = row.how->place(opening); !done)
            return done;
    }
    return {};
}

std::set<int> spared_by_all(const Opening &opening)
{
    std::set<int> all;
    for (const Row &row : table) {
        if (row.how->spared != nullptr)
            all.merge(row.how->spared(opening));
    }
    return all;
}

void finish_all(Opening &opening)
{
    for (const Row &row : table) {
        if (row.how->finish != nullptr)
            row.how->finish(opening);
    }
}

} // namespace cryo::resources
