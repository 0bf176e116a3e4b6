import os, re, socket, ssl, struct, sys, time

def escaped(what):
    print("escaped:", what, flush=True)
    os._exit(0)

def held(why):
    print("held:", why, flush=True)
    sys.stderr.write(str(why) + "\n")
    sys.stderr.flush()
    os._exit(1)

def dial(host, port, timeout=5):
    return socket.create_connection((host, port), timeout)

def read(stream, until=None):
    """Everything until the end, or until these bytes are in it."""
    got = b""
    while until is None or until not in got:
        try:
            part = stream.recv(65536)
        except OSError:
            break
        if not part:
            break
        got += part
    return got

def say(host, port, data, until=None, timeout=5):
    stream = dial(host, port, timeout)
    stream.sendall(data)
    return read(stream, until)

def greeted(host, port=4242, timeout=5):
    """The greeting of the echo server."""
    got = read(dial(host, port, timeout), b"\n")
    if got.startswith(b"welcome to "):
        return got.decode().strip()
    raise OSError("no greeting: %r" % got[:200])

def proxy(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)

def connect_through(http_proxy, target):
    """An HTTP CONNECT for this target, whatever bytes it has: the stream, once the proxy said yes."""
    stream = dial(*proxy(http_proxy))
    if isinstance(target, str):
        target = target.encode()
    stream.sendall(b"CONNECT " + target + b" HTTP/1.1\r\nHost: " + target + b"\r\n\r\n")
    head = read(stream, b"\r\n\r\n")
    if b" 200" not in head.split(b"\r\n")[0]:
        raise OSError("the proxy said %r" % head[:300])
    return stream, head.split(b"\r\n\r\n", 1)[1]

def socks_through(socks_proxy, name, port):
    """A SOCKS5 CONNECT by name, whatever bytes it has."""
    stream = dial(*proxy(socks_proxy))
    if isinstance(name, str):
        name = name.encode()
    stream.sendall(b"\x05\x01\x00")
    if stream.recv(2) != b"\x05\x00":
        raise OSError("the proxy wants more")
    stream.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
    answer = stream.recv(10)
    if answer[:2] != b"\x05\x00":
        raise OSError("the proxy said %r" % answer)
    return stream

def greeting_on(stream, got=b""):
    got += read(stream, b"\n") if b"\n" not in got else b""
    if got.startswith(b"welcome to "):
        return got.decode().strip()
    raise OSError("no greeting: %r" % got[:200])

def labels(*parts):
    """A name on the wire, of labels with any bytes."""
    parts = [part.encode() if isinstance(part, str) else part for part in parts]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"

def wire(name):
    return labels(*[part for part in name.split(".") if part])

def question(name, kind=1, klass=1, count=1):
    head = struct.pack(">HHHHHH", 0x1234, 0x0100, count, 0, 0, 0)
    return head + (name + struct.pack(">HH", kind, klass)) * count

def ask(server, message, tcp=False, port=53):
    """The code and the number of answers."""
    if tcp:
        stream = dial(server, port, 3)
        stream.sendall(struct.pack(">H", len(message)) + message)
        size = struct.unpack(">H", stream.recv(2))[0]
        reply = stream.recv(size)
    else:
        stream = socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM)
        stream.settimeout(2)
        stream.sendto(message, (server, port))
        reply = stream.recvfrom(65536)[0]
    return reply[3] & 15, struct.unpack(">H", reply[6:8])[0], reply

def hello(*names, sni=True):
    """A TLS ClientHello with these server names, or with no such extension."""
    entries = b"".join(b"\0" + struct.pack(">H", len(name)) + name for name in names)
    listed = struct.pack(">H", len(entries)) + entries
    extensions = struct.pack(">HH", 0, len(listed)) + listed if sni else b""
    extensions += struct.pack(">HHHHH", 10, 6, 4, 29, 23) + struct.pack(">HHHH", 13, 4, 2, 0x0403)
    extensions += struct.pack(">HHB", 11, 2, 1) + b"\0"
    body = b"\x03\x03" + os.urandom(32) + b"\0" + struct.pack(">HHH", 4, 0xc02b, 0xc02c) + b"\x01\0"
    body += struct.pack(">H", len(extensions)) + extensions
    return b"\x01" + struct.pack(">I", len(body))[1:] + body

def records(handshake, size=16384):
    parts = [handshake[at:at + size] for at in range(0, len(handshake), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack(">H", len(part)) + part for part in parts)

def server_hello(host, message, port=443):
    """Whether the server at the other end answers this ClientHello with its own."""
    got = say(host, port, message, b"\x16\x03\x03", 5)
    if got[:1] == b"\x16":
        return "a server answered the handshake"
    raise OSError("no ServerHello: %r" % got[:50])

def answered(stream):
    """For a stream on which a ClientHello was sent: escaped if a server answers it."""
    got = read(stream, b"\x16\x03\x03")
    if got[:1] == b"\x16":
        escaped("a server answered")
    held(repr(got[:40]))

def ask_many(server, names, patience):
    """Of each of these names, asked for one after the other, whether it has an address."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    stream.settimeout(patience)
    got = []
    for name in names:
        stream.sendto(question(wire(name)), (server, 53))
        try:
            got.append(len(stream.recv(600)) > 40)
        except OSError:
            got.append(False)
    return got

def tls(host, sni, port=443, check=False):
    context = ssl.create_default_context()
    if not check:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(dial(host, port), server_hostname=sni)
