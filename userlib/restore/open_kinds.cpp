// SPDX-License-Identifier: Apache-2.0
// Kinds of open files that have a source of their own in resources/: what they ask of a restart.
#include "restore/open_parts.hpp"

#include "resources/cuts.hpp"
#include "resources/kinds.hpp"
#include "resources/locks.hpp"
#include "resources/owner.hpp"
#include "restore/trusted_path.hpp"

namespace cryo::restore {

namespace {

class OpeningOf final : public resources::Opening
{
  public:
    explicit OpeningOf(Planning &p) : p_(p) {}

    const image::SavedRecords &records() const override
    {
        return p_.saved.of_tree ? *p_.saved.of_tree : p_.saved.own;
    }
    const std::vector<image::Timer> &timers() const override { return p_.saved.of<image::Timer>(); }
    int64_t cut_realtime() const override { return p_.saved.process.cut_realtime; }
    bool is_opened(uint32_t open_file) const override { return restore::is_opened(p_, open_file); }
    bool is_redirected(uint32_t open_file) const override
    {
        return p_.redirected.contains(open_file);
    }
    int made(uint32_t open_file) const override
    {
        const auto found = p_.open_fds.find(open_file);
        return found != p_.open_fds.end() ? found->second : -1;
    }
    Result<void> keep(Fd made, uint32_t open_file) override
    {
        Result<int> kept = keep_open(p_, std::move(made), open_file);
        return kept ? Result<void>() : Result<void>(kept.error());
    }
    Result<int> keep_standard(const image::OpenFile &open_file) override
    {
        const int which = standard_for(p_, open_file);
        Result<int> kept = open_standard(p_, which, open_file.id);
        return kept ? Result<int>(which) : kept;
    }
    Result<std::string> contents(uint32_t object, uint64_t size) override
    {
        return small_contents(p_, object, size);
    }
    const Trust &trust() const override { return *p_.options.trust; }
    Result<Found> find(const image::File &file) const override
    {
        return find_trusted(p_.options, file);
    }
    bool rehearses() const override { return p_.options.rehearse; }
    void notice(std::string text) override { p_.plan.notices.push_back(std::move(text)); }
    Program &program() override { return p_.plan.program; }
    bool cares_for(uint32_t open_file) const override
    {
        return p_.saved.cares_for.contains(open_file);
    }
    bool is_first() const override { return p_.saved.is_first; }
    Operand opened(uint32_t open_file) const override { return restore::opened(p_, open_file); }
    int descriptor(uint32_t open_file) const override { return descriptor_of(p_, open_file); }

  private:
    Planning &p_;
};

} // namespace

std::unique_ptr<resources::Opening> opening_of(Planning &p)
{
    return std::make_unique<OpeningOf>(p);
}

Result<void> open_kinds(Planning &p)
{
    OpeningOf opening(p);
    return resources::open_all(opening);
}

Result<void> place_kinds(Planning &p)
{
    OpeningOf opening(p);
    return resources::place_all(opening);
}

void finish_kinds(Planning &p)
{
    OpeningOf opening(p);
    resources::finish_all(opening);
}

Result<void> spare_leases(Planning &p)
{
    return p.options.rehearse ? resources::refuse_leases(OpeningOf(p), p.saved.of<image::Lock>())
                              : Result<void>();
}

void plan_locks(Planning &p)
{
    if (p.options.rehearse)
        return; // the program may hold them, and no other process must find them taken
    OpeningOf opening(p);
    resources::take_locks(opening, p.saved.of<image::Lock>());
}

std::set<int> spared_to_the_end(Planning &p)
{
    OpeningOf opening(p);
    std::set<int> spared = resources::spared_by_all(opening);
    spared.merge(spared_listeners(p));
    if (!p.options.rehearse) // where the files are the program's
        spared.merge(
            resources::Cuts(opening, p.saved.of<image::Lock>(), p.saved.only_passed).spared());
    return spared;
}

void cut_files(Planning &p)
{
    OpeningOf opening(p);
    resources::Cuts(opening, p.saved.of<image::Lock>(), p.saved.only_passed).plan();
}

void plan_owners(Planning &p)
{
    OpeningOf opening(p);
    for (std::string &notice : resources::set_owners(
             opening, {p.saved.process.pid, p.options.restore_pid, p.saved.owned}))
        p.plan.notices.push_back(std::move(notice));
}

} // namespace cryo::restore
