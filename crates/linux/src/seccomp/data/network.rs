//! Sockets; the network namespace decides what can be reached.
//! Columns: name, number on x86_64, on aarch64, on i386 (`-`: not there), verdict, reason. Sorted by name.

use super::calls;

calls! {
    accept                    43 202   - Allow                "takes a connection";
    accept4                  288 242 364 Allow                "accept with flags";
    bind                      49 200 361 Allow                "names a socket; servers on the sandbox's own loopback";
    connect                   42 203 362 Allow                "connects a socket";
    getpeername               52 205 368 Allow                "reads the other end's address";
    getsockname               51 204 367 Allow                "reads the own address";
    getsockopt                55 209 365 Allow                "reads socket options";
    listen                    50 201 363 Allow                "waits for connections";
    recvfrom                  45 207 371 Allow                "receives from a socket, with the sender's address";
    recvmmsg                 299 243 337 Allow                "receives many messages";
    recvmmsg_time64            -   - 417 Allow                "recvmmsg after 2038";
    recvmsg                   47 212 372 Allow                "receives with control data";
    sendmmsg                 307 269 345 Allow                "sends many messages; DNS resolvers";
    sendmsg                   46 211 370 Allow                "sends with control data";
    sendto                    44 206 369 Allow                "sends to an address or a connected peer";
    setsockopt                54 208 366 Allow                "sets socket options; privileged ones need capabilities that are gone";
    shutdown                  48 210 373 Allow                "closes one direction of a connection";
    socket                    41 198 359 Args(Socket)         "unix, TCP, UDP, ping and route netlink only: other families and raw sockets are rarely tested kernel code, or reach the host (vsock)";
    socketcall                 -   - 102 Closed               "all socket calls behind one pointer, so the family can't be checked; libc has used the direct calls since 2016";
    socketpair                53 199 360 Args(SocketPair)     "unix pairs only: no other family has useful ones";
}
