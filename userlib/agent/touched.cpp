// SPDX-License-Identifier: Apache-2.0
// Reports which pages of shared memory exist, so that the checkpointer skips the others: reading a
// page that was never touched would allocate it.
#include "agent/agent.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <sys/socket.h>

namespace cryo::agent {

namespace {

// Static: the handler's stack may be small. Only the leader uses it.
unsigned char pages[touched_at_once];

long look(const TouchedRequest &request)
{
    const uint64_t count = request.count;
    if (count == 0 || count > touched_at_once)
        return -EINVAL;
    const long result =
        sys::call(SYS_mincore, request.start.number(), count * sys::page_size, pages);
    if (sys::failed(result))
        return result;
    for (uint64_t i = 0; i < count; i++) { // a result byte is written after its eight were read
        const bool is_there = (pages[i] & 1) != 0;
        const unsigned before = i % 8 == 0 ? 0 : pages[i / 8];
        pages[i / 8] = static_cast<unsigned char>(before | (is_there ? 1U << (i % 8) : 0U));
    }
    return 0;
}

} // namespace

void send_touched(int connection, const TouchedRequest &request)
{
    const long result = look(request);
    const Reply answer = {protocol_magic, protocol_version, Op::touched, result, 0, 0};
    send_packet(connection, &answer, sizeof(answer));
    if (!sys::failed(result))
        send_packet(connection, pages, (request.count + 7) / 8);
}

} // namespace cryo::agent
