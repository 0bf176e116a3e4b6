"""Archives byte by byte: every field can be made to lie. zipfile and tarfile would refuse or repair most of it."""

import struct
import zlib

MANIFEST = b"---\nname: demo\ndescription: A demo.\n---\nHello.\n"


class Zip:
    """Entries are added one by one; what a keyword names is written as given, the rest as it should be."""

    def __init__(self, prefix=b"", adjust=True):
        self.out = bytearray(prefix)
        # Where offsets count from: a self-extractor either adjusts them or does not.
        self.base = 0 if adjust else len(prefix)
        self.central = []

    def add(self, name, data=b"", *, method=0, flags=0, mode=0o100644, size=None, packed=None, crc=None, raw=None,
            local=None, central_extra=b"", local_extra=b"", descriptor=None, offset=None, listed=True, disk=0):
        name = name.encode() if isinstance(name, str) else name
        if raw is None:
            raw = deflate(data) if method == 8 else data
        facts = {
            "name": name, "flags": flags, "method": method,
            "crc": zlib.crc32(data) if crc is None else crc,
            "packed": len(raw) if packed is None else packed,
            "size": len(data) if size is None else size,
        }
        here = len(self.out) - self.base
        if offset is None:
            self.out += local_header({**facts, **(local or {})}, local_extra) + raw + (descriptor or b"")
        if listed:
            start = here if offset is None else offset
            self.central.append(central_header(facts, central_extra, mode, start, disk))
        return here

    def gap(self, data):
        self.out += data

    def done(self, *, comment=b"", before_end=b"", suffix=b"", **end):
        start = len(self.out) - self.base
        directory = b"".join(self.central)
        fields = {"disk": 0, "here": len(self.central), "all": len(self.central), "bytes": len(directory),
                  "start": start, "comment": len(comment), **end}
        record = struct.pack("<4s4H2IH", b"PK\5\6", fields["disk"], 0, fields["here"], fields["all"],
                             fields["bytes"], fields["start"], fields["comment"])
        return bytes(self.out) + directory + before_end + record + comment + suffix


def deflate(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def local_header(facts, extra):
    name = facts["name"]
    return struct.pack("<4s5H3I2H", b"PK\3\4", 20, facts["flags"], facts["method"], 0, 33, facts["crc"],
                       facts["packed"], facts["size"], len(name), len(extra)) + name + extra


def central_header(facts, extra, mode, offset, disk):
    name = facts["name"]
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 3 << 8 | 20, 20, facts["flags"], facts["method"], 0, 33,
                       facts["crc"], facts["packed"], facts["size"], len(name), len(extra), 0, disk, 0,
                       (mode << 16) & 0xFFFFFFFF, offset) + name + extra


def extra_field(number, data):
    return struct.pack("<2H", number, len(data)) + data


def skill_zip(*names, **options):
    """A good skill, and empty files or (name, data, options) beside it."""
    zip_file = Zip()
    zip_file.add("demo/SKILL.md", MANIFEST)
    for entry in names:
        name, data, more = entry if isinstance(entry, tuple) else (entry, b"x", {})
        zip_file.add(name, data, **more)
    return zip_file.done(**options)


def tar_header(name, size=0, kind=b"0", *, link=b"", mode=0o644, magic=b"ustar\x0000", prefix=b"", size_field=None,
               sum_delta=0):
    name = name.encode() if isinstance(name, str) else name
    link = link.encode() if isinstance(link, str) else link
    size_field = b"%011o\0" % size if size_field is None else size_field
    block = bytearray(512)
    for at, field in [(0, name[:100]), (100, b"%07o\0" % mode), (108, b"0000000\0"), (116, b"0000000\0"),
                      (124, size_field), (136, b"%011o\0" % 315532800), (148, b" " * 8), (156, kind),
                      (157, link[:100]), (257, magic), (345, prefix)]:
        block[at:at + len(field)] = field
    block[148:156] = b"%06o\0 " % (sum(block) + sum_delta)
    return bytes(block)


def padded(data):
    return data + b"\0" * (-len(data) % 512)


def tar_file(name, data=b"x", **options):
    return tar_header(name, len(data), **options) + padded(data)


def pax(kind=b"x", **records):
    """An extended header; a key with dots is written with `__`."""
    body = b""
    for key, value in records.items():
        value = value.encode() if isinstance(value, str) else value
        rest = b" " + key.replace("__", ".").encode() + b"=" + value + b"\n"
        length = len(rest) + 1
        while length != len(rest) + len(str(length)):
            length += 1
        body += str(length).encode() + rest
    return extension(kind, body)


def extension(kind, body):
    return tar_header("extension", len(body), kind) + padded(body)


END = b"\0" * 1024


def skill_tar(*parts, end=END):
    return tar_file("demo/SKILL.md", MANIFEST) + b"".join(parts) + end


def zstd(data, *, runs=0, window=None, dictionary=None):
    """One zstd frame of stored blocks, and `runs` blocks of 128 KiB of zeros in four bytes each."""
    descriptor = 1 if dictionary is not None else 0
    out = struct.pack("<I", 0xFD2FB528) + bytes([descriptor, (7 << 3) if window is None else window])
    if dictionary is not None:
        out += bytes([dictionary])
    blocks = [(0, data[at:at + 65536]) for at in range(0, len(data), 65536)]
    blocks += [(1, b"\0")] * runs
    for turn, (kind, body) in enumerate(blocks):
        size = 131072 if kind == 1 else len(body)
        last = turn == len(blocks) - 1
        out += struct.pack("<I", size << 3 | kind << 1 | last)[:3] + body
    return out
