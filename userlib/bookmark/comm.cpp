// SPDX-License-Identifier: Apache-2.0
#include "bookmark/comm.hpp"

#include <new>

namespace cryo::bookmark {

namespace {

// The finaliser of splitmix64: every input bit affects every output bit.
uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

} // namespace

CommId derive_comm_id(CommId parent, uint64_t ordinal, uint64_t discriminator)
{
    return mix(mix(mix(parent) ^ ordinal) ^ discriminator);
}

Comm::Comm(CommId id, uint32_t peer_count, std::span<const WorldRank> peers, uint32_t members,
           Threads threads, std::pmr::memory_resource *memory)
    : drained(memory), id_(id), peer_count_(peer_count), members_(members), threads_(threads),
      memory_(memory), peers_(peers.begin(), peers.end(), memory), sent_(make_directory()),
      received_(make_directory())
{}

Comm::~Comm()
{
    drop_directory(sent_);
    drop_directory(received_);
}

Comm::Directory Comm::make_directory()
{
    size_t count = pages();
    void *place = memory_->allocate(count * sizeof(std::atomic<Page *>));
    auto *directory = static_cast<Directory>(place);
    for (size_t i = 0; i < count; i++)
        new (directory + i) std::atomic<Page *>(nullptr);
    return directory;
}

void Comm::drop_directory(Directory directory)
{
    for (uint32_t i = 0; i < pages(); i++)
        if (Page *page = directory[i].load())
            memory_->deallocate(page, sizeof(Page), alignof(Page));
    memory_->deallocate(directory, pages() * sizeof(std::atomic<Page *>));
}

Comm::Page *Comm::make_page(std::atomic<Page *> &place)
{
    Page *page = new (memory_->allocate(sizeof(Page), alignof(Page))) Page;
    Page *other = nullptr;
    if (place.compare_exchange_strong(other, page, std::memory_order_acq_rel))
        return page;
    memory_->deallocate(page, sizeof(Page), alignof(Page)); // another thread was first
    return other;
}

void Comm::unsent(int peer, uint64_t bytes)
{
    Page *page = sent_[uint32_t(peer) / kPagePeers].load(std::memory_order_acquire);
    Slot &slot = page->slots[uint32_t(peer) % kPagePeers];
    bump(slot.messages, uint64_t(-1));
    bump(slot.bytes, -bytes);
}

Tally Comm::sum(Directory directory, WorldRank rank) const
{
    // MPI forbids groups in which a rank appears twice, so there is at most one match; a search is
    // needed unless ranks are world ranks.
    Tally total;
    uint32_t first = peers_.empty() ? rank : 0;
    uint32_t end = peers_.empty() ? rank + 1 : peer_count_;
    for (uint32_t peer = first; peer < end && peer < peer_count_; peer++) {
        if (world(int(peer)) != rank)
            continue;
        if (const Page *page = directory[peer / kPagePeers].load(std::memory_order_acquire))
            total += page->slots[peer % kPagePeers].tally();
    }
    return total;
}

void Comm::forget_counts()
{
    for (Directory directory : {sent_, received_}) {
        for (uint32_t i = 0; i < pages(); i++) {
            Page *page = directory[i].exchange(nullptr);
            if (page)
                memory_->deallocate(page, sizeof(Page), alignof(Page));
        }
    }
}

} // namespace cryo::bookmark
