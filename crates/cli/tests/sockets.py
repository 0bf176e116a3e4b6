# Servers and clients in one sandbox: paths of every sort, names, loopback, full queues, signals while waiting.
import errno, os, select, signal, socket, struct, threading, time

def serve(server, count=1):
    server.listen(8)
    def answer():
        for _ in range(count):
            peer, _ = server.accept()
            if server.family == socket.AF_UNIX:
                credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                _, uid, gid = struct.unpack("iII", credentials)
                assert (uid, gid) == (os.getuid(), os.getgid()), (uid, gid)
            peer.sendall(b"hello")
            peer.close()
    threading.Thread(target=answer, daemon=True).start()

def hello(client):
    assert client.recv(9) == b"hello"
    client.close()

home = os.path.expanduser("~")
os.mkdir("deep")
os.symlink("deep", "link")
for place in ["/tmp/s", "s", os.getcwd() + "/t", "link/../deep/s", "link/t", home + "/s", "/run/s", "/dev/shm/s", "\0name"]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(place)
        serve(server, 2)
        for timeout in (None, 5):
            client = socket.socket(socket.AF_UNIX, kind)
            client.settimeout(timeout)
            client.connect(place)
            hello(client)
        server.close()
        if place[0] != "\0":
            client = socket.socket(socket.AF_UNIX, kind)
            assert client.connect_ex(place) == errno.ECONNREFUSED
            os.unlink(place)
            assert client.connect_ex(place) == errno.ENOENT
os.unlink("link")
os.rmdir("deep")

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    server = socket.socket(family)
    server.bind((address, 0))
    serve(server, 3)
    for timeout in (None, 5):
        hello(socket.create_connection(server.getsockname()[:2], timeout))
    client = socket.socket(family)
    client.setblocking(False)
    assert client.connect_ex(server.getsockname()) in (0, errno.EINPROGRESS)
    select.select([], [client], [])
    assert client.connect_ex(server.getsockname()) in (0, errno.EISCONN)
    client.setblocking(True)
    hello(client)
    assert socket.socket(family).connect_ex((address, 1)) == errno.ECONNREFUSED

# Arguments that make no sense get the kernel's own errors.
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def raw(fd, address, length):
    ctypes.set_errno(0)
    libc.connect(fd, address, length)
    return ctypes.get_errno()
unix, tcp = socket.socket(socket.AF_UNIX), socket.socket()
assert raw(999, b"\0" * 16, 16) == errno.EBADF
assert raw(1, b"\0" * 16, 16) == errno.ENOTSOCK
assert raw(tcp.fileno(), None, 16) == errno.EFAULT
assert raw(tcp.fileno(), b"\0" * 200, 200) == errno.EINVAL
assert raw(unix.fileno(), b"\1\0", 2) == errno.EINVAL
assert raw(unix.fileno(), b"\2\0" + b"\0" * 14, 16) == errno.EINVAL
assert raw(unix.fileno(), b"\1\0/etc/passwd\0", 14) == errno.ECONNREFUSED

# A queue that is full: whoever waits gets in, whoever has a limit is told, and signals do not hurt.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
full = socket.socket(socket.AF_UNIX)
full.bind("/tmp/full")
full.listen(0)
first = socket.socket(socket.AF_UNIX)
first.connect("/tmp/full")
client = socket.socket(socket.AF_UNIX)
client.setblocking(False)
assert client.connect_ex("/tmp/full") == errno.EAGAIN
limited = socket.socket(socket.AF_UNIX)
limited.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 0, 50000))
assert limited.connect_ex("/tmp/full") == errno.EAGAIN
later = threading.Timer(0.2, lambda: [full.accept() for _ in range(2)])
later.daemon = True
later.start()
socket.socket(socket.AF_UNIX).connect("/tmp/full")
signal.setitimer(signal.ITIMER_REAL, 0)
print("all well")
