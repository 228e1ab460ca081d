// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/print.hpp"
#include "destination.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

namespace {

constexpr uint64_t kAddressSpace = (kMaxPage - 1) * kPageSize;

// Bytes of one object.
struct Selection {
    uint32_t object = 0;
    uint64_t first = 0;
    uint64_t length = 0;
    bool memory = false; // a hole may be backed by a file
};

struct Request {
    std::string what;
    std::optional<std::pair<uint64_t, uint64_t>> range; // from, to
};

std::optional<uint64_t> number(std::string_view text, bool addresses)
{
    int base = addresses ? 16 : 10;
    if (text.starts_with("0x")) {
        text.remove_prefix(2);
        base = 16;
    }
    uint64_t out = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return std::nullopt;
    return out;
}

// OBJECT[:FROM-TO]
Request parse_request(const std::string &text)
{
    size_t colon = text.rfind(':');
    size_t dash = text.find('-', colon == std::string::npos ? text.size() : colon);
    if (dash == std::string::npos)
        return {text, std::nullopt};
    std::string what = text.substr(0, colon);
    bool addresses = what == "memory" || what.starts_with("0x");
    auto from = number(std::string_view(text).substr(colon + 1, dash - colon - 1), addresses);
    auto to = number(std::string_view(text).substr(dash + 1), addresses);
    if (!from || !to)
        return {text, std::nullopt};
    return {what, std::pair(*from, *to)};
}

class Selector
{
  public:
    explicit Selector(const Description &about) : about_(about), memory_(about.one<Memory>().object)
    {}

    Result<Selection> select(const std::string &what) const
    {
        if (what == "memory")
            return Selection{.object = memory_, .length = kAddressSpace, .memory = true};
        if (what.starts_with("0x"))
            return region_at(what);
        if (!what.empty() && std::ranges::all_of(what, [](char c) { return c >= '0' && c <= '9'; }))
            return object(what);
        if (auto found = file(what))
            return *found;
        return region_named(what);
    }

    bool is_name(const std::string &what) const { return file(what).has_value(); }

  private:
    uint64_t size_of(uint32_t object) const
    {
        for (const Object &o : about_.all<Object>())
            if (o.id == object && o.size)
                return o.size;
        uint64_t end = 0;
        for (const Extent &e : about_.extents)
            if (e.object == object)
                end = std::max(end, e.end() * kPageSize);
        return end;
    }

    Selection of_region(const Region &r) const
    {
        return {.object = r.object,
                .first = r.object_page * kPageSize,
                .length = region_pages(r) * kPageSize,
                .memory = r.object == memory_};
    }

    Result<Selection> region_at(const std::string &what) const
    {
        auto address = number(what, true);
        for (const Region &r : about_.all<Region>())
            if (address && *address >= r.start && *address < r.end)
                return of_region(r);
        return Error(ENOENT, what + ": no region has this address; --maps lists them");
    }

    Result<Selection> object(const std::string &what) const
    {
        auto id = number(what, false);
        bool known = false;
        for (const Object &o : about_.all<Object>())
            known = known || o.id == id;
        for (const Extent &e : about_.extents)
            known = known || e.object == id;
        if (!id || !known)
            return Error(ENOENT, fmt::format("there is no object {}; --files and --records list "
                                             "them",
                                             what));
        if (*id == memory_)
            return Selection{.object = memory_, .length = kAddressSpace, .memory = true};
        return Selection{.object = uint32_t(*id), .length = size_of(uint32_t(*id))};
    }

    std::optional<Result<Selection>> file(const std::string &what) const
    {
        for (const Attachment &a : about_.all<Attachment>())
            if (a.name == what)
                return Selection{.object = a.object, .length = a.size};
        for (const File &f : about_.all<File>()) {
            if (f.path != what && f.link != what)
                continue;
            if (!f.object)
                return Error(ENOENT, what + ": the image names this file but has no contents of "
                                            "it; they are saved on --save-all or --save-files");
            return Selection{.object = f.object, .length = f.size ? f.size : size_of(f.object)};
        }
        return std::nullopt;
    }

    Result<Selection> region_named(const std::string &what) const
    {
        std::optional<Region> found;
        for (const Region &r : about_.all<Region>()) {
            std::string kind = name_of(r.kind);
            if (what != kind && what != "[" + kind + "]" && what != r.name)
                continue;
            if (found)
                return Error(EINVAL, fmt::format("several regions are called {}; take one by an "
                                                 "address (0x{:x}, 0x{:x}, …)",
                                                 what, found->start, r.start));
            found = r;
        }
        if (!found)
            return Error(ENOENT, what + ": no region and no saved file has this name; --maps and "
                                        "--files list them");
        return of_region(*found);
    }

    const Description &about_;
    uint32_t memory_;
};

Result<Selection> choose(const Description &about, const std::string &text)
{
    Selector selector(about);
    // A path may look as if it ended in a range.
    Request request = selector.is_name(text) ? Request{text, std::nullopt} : parse_request(text);
    auto selected = selector.select(request.what);
    if (!selected)
        return selected;
    if (!request.range) {
        if (selected->length == kAddressSpace)
            return Error(EINVAL, "the whole address space is too much; name a range, as in "
                                 "memory:7f0000000000-7f0000001000");
        return selected;
    }
    auto [from, to] = *request.range;
    // A range of "memory" counts in addresses, of anything else from its beginning.
    if (request.what.starts_with("0x"))
        return Error(EINVAL, "a range of addresses is written memory:FROM-TO");
    if (to <= from || to > selected->length)
        return Error(EINVAL, fmt::format("{}: the range is empty, or reaches beyond the {} bytes "
                                         "that there are",
                                         text, selected->length));
    selected->first += from;
    selected->length = to - from;
    return selected;
}

// Returns the bytes of pages that the image does not have.
Result<uint64_t> copy(Image &image, const Selection &what, Destination &to)
{
    constexpr uint64_t kChunk = 256;
    std::vector<uint8_t> buffer(kChunk * kPageSize);
    uint64_t absent = 0;
    uint64_t at = what.first;
    uint64_t end = what.first + what.length;
    while (at < end) {
        uint64_t page = at / kPageSize;
        auto run = image.find(what.object, page);
        if (!run)
            return run.error();
        bool zero = run->hole || run->kind == ExtentKind::zero;
        uint64_t stop = run->count > (end - at) / kPageSize ? end : (page + run->count) * kPageSize;
        stop = std::min(stop, end);
        if (run->hole)
            absent += stop - at;
        if (zero && to.skip(stop - at)) {
            at = stop;
            continue;
        }
        stop = std::min(stop, (page + kChunk) * kPageSize);
        uint64_t pages = (stop - page * kPageSize + kPageSize - 1) / kPageSize;
        MutableBytes bytes = MutableBytes(buffer).first(pages * kPageSize);
        if (auto ok = image.read_pages(what.object, page, bytes); !ok)
            return ok.error();
        if (auto ok = to.write(bytes.subspan(at - page * kPageSize, stop - at)); !ok)
            return ok.error();
        at = stop;
    }
    return absent;
}

} // namespace

Result<void> extract(const Input &input, const Options &options)
{
    auto image = input.open_only(options.files[0]);
    if (!image)
        return image.error();
    auto about = Description::of(**image);
    if (!about)
        return about.error();
    auto selection = choose(*about, options.extract);
    if (!selection)
        return selection.error().within(options.files[0]);
    auto to = Destination::open(options.output);
    if (!to)
        return to.error();
    auto absent = copy(**image, *selection, *to);
    auto ok = absent ? to->finish() : absent.error();
    if (!ok) {
        to->discard();
        return ok;
    }
    if (selection->memory && *absent)
        cryo::print(stderr,
                    "{}: {}: {} are not in the image, because the program never touched them or a "
                    "mapped file has them; they were written as zeros\n",
                    kCommand, options.extract, size_text(*absent));
    return {};
}

} // namespace cryo::inspect
