// SPDX-License-Identifier: Apache-2.0
//
// One member's part in making the parity of its set where each member sees its own directory only.
// The member reads its files, sends each block to those who keep the parity of its row, and codes
// what the others send. All walk through the same rows, so a block is sent without a name.
//
// A member may be `window` blocks ahead of another one that takes them; for each that was used up,
// the taker gives it another one. So a member holds at most `window` blocks of each other one. As
// every member sends in the order of the rows, the first row that is not complete can always go on.
//
//     Exchange exchange(set, directory, trust, sync, post);   // set.member: who this is
//     Result<void> good = exchange.begin();
//     good = exchange.take_block(2, bytes, sum); // an error ends it: what it has made is removed
//     good = exchange.take_leave(2, 1);
//     if (exchange.is_complete())                // all is coded, and the others have all of it
//         good = exchange.commit();              // when all members say so
//
// Nothing here waits, and nothing is believed of other members but their blocks' contents: their
// connection says who they are. Whether a member's files are as described, it says itself. A
// block's checksum finds what a network damages; that nobody else writes to a connection is up to
// Post.
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "redundancy/coder.hpp"
#include "redundancy/member_files.hpp"
#include "redundancy/parity_file.hpp"
#include "redundancy/rows.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace cryo::redundancy {

class Exchange
{
  public:
    static constexpr uint32_t window = 4;

    // What goes to other members, each of whom gets all of it in this order.
    class Post
    {
      public:
        Post() = default;
        Post(const Post &) = delete;
        Post &operator=(const Post &) = delete;
        virtual ~Post() = default;
        virtual void send_block(uint32_t to, image::Bytes block, uint64_t checksum) = 0;
        virtual void send_leave(uint32_t to, uint32_t blocks) = 0; // to send so many more
    };

    // Whatever is passed must outlive it. The description was checked.
    Exchange(const Description &set, const Directory &directory, const Trust &trust, bool sync,
             Post &post);

    // Members may have begun before: what comes from them until then is kept.
    Result<void> begin();
    // EPROTO: the member has sent what it may not. EBADMSG: the block is not what was sent.
    Result<void> take_block(uint32_t from, image::Bytes block, uint64_t checksum);
    Result<void> take_leave(uint32_t from, uint32_t blocks);
    bool is_complete() const;
    Result<void> commit();

  private:
    struct Other {
        std::deque<std::vector<uint8_t>> blocks; // came, and were not used up
        uint32_t leave = window;                 // how many may be sent to it
    };

    Result<void> go_on();
    Result<bool> step();
    Result<bool> send_next(); // false: nothing can be sent now
    Result<bool> code_next(); // false: nothing can be coded now
    bool next_to_send();
    bool next_to_code();
    bool may_send() const;
    bool has_come() const;
    void use_up();
    Error broken(uint32_t from, const char *what) const;

    const Description &set_;
    const Directory &directory_;
    bool sync_;
    Post &post_;
    uint32_t own_;
    Rows to_send_; // each cursor stands at a row in which this member has a part, once it has begun
    Rows to_code_;
    Blocks out_;
    Blocks row_;
    Coder coder_;
    MemberReader reader_;
    std::optional<ParityWriter> writer_;
    std::vector<Other> others_; // by member
    bool sent_all_ = false;
    bool coded_all_ = false;
    std::optional<Error> failed_; // the first one of its own: after it nothing is sent or coded
};

} // namespace cryo::redundancy
