// SPDX-License-Identifier: Apache-2.0
//
// One process of a checkpoint: stopped, described, frozen, and written into its own image.
// checkpoint.cpp decides the order in which several members do so.
//
//     std::unique_ptr<Member> one = Member::find(relation, turn, common);
//     ... one->process() is asked to prepare, and stopped ...
//     one->describe(); …
//     one->memory().save_unfrozen(writer, -1);
//     ... one->freezing() freezes its memory, and one->process() goes on ...
//     one->save(writer, facts);
#pragma once

#include "capture/files/early_descriptors.hpp"
#include "capture/member/freezing.hpp"
#include "capture/member/member_process.hpp"
#include "capture/member/member_records.hpp"
#include "capture/member/memory_writer.hpp"
#include "capture/process/describe.hpp"

#include <memory>
#include <string>

namespace cryo::capture {

class Member
{
  public:
    // Finds the agent's address, as far as that does not disturb the process.
    static std::unique_ptr<Member> find(const Relation &relation, Turn turn, Common &common);
    // A member that another checkpoint has found and asked to prepare.
    static std::unique_ptr<Member> adopt(const Relation &relation, Turn turn, Fd connection,
                                         Common &common);
    void set_early_look(EarlyLook look) { d_.early = std::move(look); }
    void look_at_descriptors() { early_descriptors_ = EarlyDescriptors::at(d_.proc); }
    // The member's index among all members, once all are known.
    void set_number(size_t number) { number_ = number; }

    MemberProcess &process() { return process_; }
    const MemberProcess &process() const { return process_; }
    Freezing &freezing() { return freezing_; }
    MemoryWriter &memory() { return memory_; }
    const Relation &relation() const { return process_.relation(); }
    Description &description() { return d_; }
    Holder holder()
    {
        return {d_.proc, d_.problems, process_.agent(), d_.own_descriptors,
                early_descriptors_.empty() ? nullptr : &early_descriptors_};
    }

    Result<void> describe();
    // How it was frozen and why, for the user.
    std::string about_method() const { return freezing_.about(memory_.is_placed()); }
    // How changed pages were found, for the user; empty if that was not needed.
    std::string about_changes() const;
    Result<void> save(image::ImageWriter &writer, const ImageFacts &facts);
    // There will be no image: abandons all reading, even in progress, and lets the program resume.
    void give_up(int why)
    {
        freezing_.give_up();
        static_cast<void>(process_.ask_to_go_on(why));
    }

  private:
    Member(const Relation &relation, Turn turn, Common &common)
        : d_(relation.pid, common), process_(relation, std::move(turn), common),
          freezing_(d_, process_, common), memory_(d_, process_, freezing_, common)
    {}

    size_t number_ = 0; // index among the holders of the common files
    Description d_;
    EarlyDescriptors early_descriptors_;
    MemberProcess process_;
    Freezing freezing_;
    MemoryWriter memory_;
};

} // namespace cryo::capture
