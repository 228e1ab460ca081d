// SPDX-License-Identifier: Apache-2.0
//
// What an image says about sockets: how they come back, and what waits in them. Include
// records.hpp, which has the whole list.
#pragma once

#include "image/record_codec.hpp"

namespace cryo::image {

// How a socket comes back.
enum class SocketState : uint32_t {
    fresh = 0,
    bound = 1,
    listening = 2,
    connected_datagram = 3,
    pair = 4,   // both ends in the image, or the one that waits to be accepted
    closed = 5, // as after the peer went away
    kept = 6,   // a TCP connection to a peer outside the image: KEPT_CONNECTION
};

// A socket. Addresses are as bind(2) and connect(2) take them on Linux: u16 family, then its data
// in network order.
struct Socket {
    static constexpr RecordType type = RecordType::socket;
    static constexpr uint16_t version = 3;
    static constexpr bool required = true;

    uint32_t open_file = 0;
    uint32_t domain = 0;
    uint32_t kind = 0; // SOCK_…
    uint32_t protocol = 0;
    SocketState state = SocketState{};
    Bytes local = {};
    Bytes peer = {};
    uint32_t backlog = 0;
    // Of a pair. Of a connected UNIX datagram socket: its receiver; 0: not in the image.
    uint32_t peer_open_file = 0;
    uint32_t object = 0; // with the receive queue; 0: empty
    uint64_t size = 0;
    List<uint32_t> packets = {};
    List<uint64_t> options = {}; // triples: level, name, value
    uint32_t shutdown = 0;       // 1: reading, 2: writing, 3: both
    uint32_t file_mode = 0;      // version 2; of the file that a UNIX socket is bound to
    // Version 3. Whose that file is, as chown(2) takes them: -1 is no one in particular.
    uint32_t file_uid = ~0U;
    uint32_t file_gid = ~0U;
    // Version 3. Of a closed UNIX stream: its peer had not read all, which is still to be reported.
    bool reset = false;

    bool needs_version() const { return reset; }

    static constexpr uint32_t Socket::*key = &Socket::open_file;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("open_file", s.open_file);
        v("domain", s.domain);
        v("kind", s.kind);
        v("protocol", s.protocol);
        v("state", s.state);
        v("local", s.local);
        v("peer", s.peer);
        v("backlog", s.backlog);
        v("peer_open_file", s.peer_open_file);
        v("object", s.object);
        v("size", s.size);
        v("packets", s.packets);
        v("options", s.options);
        v("shutdown", s.shutdown);
        v("file_mode", s.file_mode, Show::octal);
        v("file_uid", s.file_uid);
        v("file_gid", s.file_gid);
        v("reset", s.reset);
    }
};

// Rare properties of sockets. An older reader, which would leave them out, refuses the image.
struct SocketMore {
    static constexpr RecordType type = RecordType::socket_more;
    static constexpr uint16_t version = 5;
    static constexpr bool required = true;

    uint32_t socket = 0;        // OPEN_FILE id
    List<uint32_t> groups = {}; // of a netlink socket: those that it has joined
    List<uint64_t> filter = {}; // instructions: code, and from bits 16, 24 and 32 on jt, jf and k
    bool filter_locked = false; // SO_LOCK_FILTER
    std::string_view interface; // of a packet socket: the name of that which it is bound to
    // Version 2. Of a UNIX socket whose file was renamed: what it is called now, in the same
    // directory.
    std::string_view file_name;
    std::string_view congestion; // version 3; TCP_CONGESTION, if it was not the system's default
    // Version 4. Of a UNIX socket that was bound to a path: its file was removed since.
    bool file_removed = false;
    // Version 4. Of an internet socket: the machine had not the address that it was bound to.
    bool absent_address = false;
    Bytes type_filter = {}; // version 5; of a raw ICMPv6 socket: ICMP6_FILTER

    bool needs_version() const
    {
        return !file_name.empty() || file_removed || !type_filter.empty();
    }

    static constexpr uint32_t SocketMore::*key = &SocketMore::socket;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("groups", s.groups);
        v("filter", s.filter);
        v("filter_locked", s.filter_locked);
        v("interface", s.interface);
        v("file_name", s.file_name);
        v("congestion", s.congestion);
        v("file_removed", s.file_removed);
        v("absent_address", s.absent_address);
        v("type_filter", s.type_filter);
    }
};

// A group of multicasts that an internet socket has joined on an interface. Addresses are of 4
// bytes or of 16, in network order. Or what a packet socket has joined there, once for each time.
struct GroupMember {
    static constexpr RecordType type = RecordType::group_member;
    static constexpr uint16_t version = 2;
    static constexpr bool required = true;

    uint32_t socket = 0;        // OPEN_FILE id
    std::string_view interface; // its name
    Bytes group = {};
    bool only_sources = false; // it hears the sources only; else all but them
    Bytes sources = {};        // addresses of the same size, one after the other
    // Version 2. Of a packet socket: PACKET_MR_…, and 1; its group is an address of the interface's
    // kind.
    uint32_t packets = 0;

    bool needs_version() const { return packets != 0; }

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("interface", s.interface);
        v("group", s.group);
        v("only_sources", s.only_sources);
        v("sources", s.sources);
        v("packets", s.packets);
    }
};

// The process that a UNIX socket names as its peer's (SO_PEERCRED): the one that made the pair,
// that listened, or that connected. Without it a restart does not know, as of older images.
struct PeerCredentials {
    static constexpr RecordType type = RecordType::peer_credentials;
    static constexpr uint16_t version = 1;
    static constexpr bool required = false;

    uint32_t socket = 0; // OPEN_FILE id
    uint32_t pid = 0;    // it may have ended; 0: it has no id where the program runs
    uint32_t uid = 0;    // effective ids, of then
    uint32_t gid = 0;

    static constexpr uint32_t PeerCredentials::*key = &PeerCredentials::socket;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("pid", s.pid);
        v("uid", s.uid);
        v("gid", s.gid);
    }
};

// Descriptors in flight (SCM_RIGHTS): those that a message queued in a UNIX socket carries besides
// its bytes.
struct Passed {
    static constexpr RecordType type = RecordType::passed;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t socket = 0;   // OPEN_FILE id of the socket that it is queued in
    uint64_t position = 0; // bytes queued before it
    uint64_t size = 0;     // bytes of the message
    uint32_t packet = 0;   // packets queued before it
    List<uint32_t> open_files = {};

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("position", s.position);
        v("size", s.size);
        v("packet", s.packet);
        v("open_files", s.open_files);
    }
};

// The senders of packets that are queued in an unconnected socket: their names as bind(2) takes
// them, one after the other. A sender without a name has size 0.
struct Senders {
    static constexpr RecordType type = RecordType::senders;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t socket = 0;       // OPEN_FILE id of the socket that they are queued in
    List<uint32_t> sizes = {}; // of the sender's name, for each packet
    Bytes names = {};

    static constexpr uint32_t Senders::*key = &Senders::socket;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("sizes", s.sizes);
        v("names", s.names);
    }
};

// A TCP connection both of whose ends are in the image: SOCKETs of the state pair.
struct Connection {
    static constexpr RecordType type = RecordType::connection;
    static constexpr uint16_t version = 1;
    static constexpr bool required = true;

    uint32_t accepted = 0; // OPEN_FILE id of the end that is to accept
    uint32_t caller = 0;   // of the end that is to connect

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("accepted", s.accepted);
        v("caller", s.caller);
    }
};

// A TCP connection to a process outside that waits for the restart, as TCP_REPAIR tells it. Its
// SOCKET, of the state kept, has the addresses, and the unread input as its object.
struct KeptConnection {
    static constexpr RecordType type = RecordType::kept_connection;
    static constexpr uint16_t version = 2;
    static constexpr bool required = true;

    uint32_t socket = 0;      // OPEN_FILE id
    uint64_t held = 0;        // in the name of the packet filter's table that holds its packets
    uint32_t receive_seq = 0; // of the next byte to arrive
    uint32_t send_seq = 0;    // of the next byte that the program writes
    uint32_t object = 0;      // with what was written and is not acknowledged; 0: nothing
    uint64_t size = 0;
    uint64_t unsent = 0;  // so many bytes at its end were never sent
    uint32_t options = 0; // TCPI_OPT_…: what both ends have agreed on
    uint32_t mss = 0;
    uint32_t send_scale = 0;
    uint32_t receive_scale = 0;
    uint32_t timestamp = 0;
    uint32_t update_seq = 0; // of the peer's last window update
    uint32_t send_window = 0;
    uint32_t greatest_window = 0; // that the peer has ever announced
    uint32_t receive_window = 0;
    uint32_t told_seq = 0;  // from where the peer counts that window
    uint32_t send_room = 0; // sizes of the buffers, as SO_SNDBUF and SO_RCVBUF tell them
    uint32_t receive_room = 0;
    // Version 2. TCP_SYN_SENT, or with the end that its peer has sent TCP_CLOSE_WAIT, TCP_LAST_ACK
    // or TCP_CLOSING; 0: the rest tells the state.
    uint32_t state = 0;

    bool needs_version() const { return state != 0; }

    static constexpr uint32_t KeptConnection::*key = &KeptConnection::socket;

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("socket", s.socket);
        v("held", s.held, Show::hex);
        v("receive_seq", s.receive_seq);
        v("send_seq", s.send_seq);
        v("object", s.object);
        v("size", s.size);
        v("unsent", s.unsent);
        v("options", s.options, Show::hex);
        v("mss", s.mss);
        v("send_scale", s.send_scale);
        v("receive_scale", s.receive_scale);
        v("timestamp", s.timestamp);
        v("update_seq", s.update_seq);
        v("send_window", s.send_window);
        v("greatest_window", s.greatest_window);
        v("receive_window", s.receive_window);
        v("told_seq", s.told_seq);
        v("send_room", s.send_room);
        v("receive_room", s.receive_room);
        v("state", s.state);
    }
};

// Connections that are not accepted yet and hold no data: the connecting sockets, in order. Their
// SOCKETs are of the state fresh or bound; of TCP of the state pair, without a peer.
struct Waiting {
    static constexpr RecordType type = RecordType::waiting;
    static constexpr uint16_t version = 2;
    static constexpr bool required = true;

    uint32_t listener = 0;       // OPEN_FILE id
    List<uint32_t> callers = {}; // OPEN_FILE ids; 0: it has closed its end since
    // Version 2. Of each such one, TCP only, the address that it has called, and its own: of the
    // listener's family.
    Bytes closed = {};

    bool needs_version() const { return !closed.empty(); }

    template <class Self, class V>
    static void fields(Self &s, V &&v)
    {
        v("listener", s.listener);
        v("callers", s.callers);
        v("closed", s.closed);
    }
};

} // namespace cryo::image
