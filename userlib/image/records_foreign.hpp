// SPDX-License-Identifier: Apache-2.0
//
// What an image says about a process that no backend of Cryo's own saved, but another checkpointer
// or the program itself. The files they wrote are in attachments. Include records.hpp,
// which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

// The backend that saved the process; no other one can restore it.
struct Foreign {
    static constexpr RecordType type = RecordType::foreign;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    std::string_view backend = {}; // criu, self
    std::string_view tool = {};    // with its version
    Bytes options = {};            // words that the restart needs, each ended by NUL
    List<uint32_t> pids = {};      // of all processes, the root first

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("backend", s.backend);
        v("tool", s.tool);
        v("options", s.options);
        v("pids", s.pids);
    }
};

} // namespace cryo::image
