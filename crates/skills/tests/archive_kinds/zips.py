"""Zips that must be refused: (kind, expected code, bytes, what a careless program does with it)."""

import struct

from archive_kinds.forge import MANIFEST, Zip, deflate, extra_field, local_header, skill_tar, skill_zip, tar_header

NAMED = {"flags": 1 << 11}


def kinds(outside):
    yield from names(outside)
    yield from together()
    yield from entries(outside)
    yield from structure()
    yield from zip64()
    yield from amounts()
    yield from skills()


def names(outside):
    yield "zip-absolute-path", "absolute-path", skill_zip(f"{outside}/escaped"), "escapes"
    yield "zip-parent-path", "parent-path", skill_zip("../escaped"), "escapes"
    yield "zip-parent-path-after-a-name", "parent-path", skill_zip("demo/../../escaped"), "escapes"
    yield "zip-parent-path-in-clutter", "parent-path", skill_zip("__MACOSX/../../escaped"), "escapes"
    yield "zip-drive-letter", "drive-letter", skill_zip("C:\\Windows\\evil.dll"), None
    yield "zip-drive-letter-within", "drive-letter", skill_zip("demo/c:evil"), None
    yield "zip-backslash-parent", "backslash", skill_zip("demo\\..\\..\\escaped"), None
    yield "zip-network-path", "network-path", skill_zip("\\\\host\\share\\evil"), None
    yield "zip-network-path-slashes", "network-path", skill_zip(f"/{outside}/escaped"), "escapes"
    yield "zip-nul-in-name", "control-character", skill_zip(b"demo/good.md\0.sh"), None
    yield "zip-newline-in-name", "control-character", skill_zip("demo/a\nb"), None
    yield "zip-escape-in-name", "control-character", skill_zip("demo/\x1b[2J"), None
    yield "zip-not-utf8", "not-utf8", skill_zip(b"demo/\xff\xfe"), None
    yield "zip-empty-name", "empty-name", skill_zip(""), None
    yield "zip-dot-part", "dot-part", skill_zip("demo/./a"), None
    yield "zip-empty-part", "dot-part", skill_zip("demo//a"), None
    yield "zip-trailing-dot", "trailing-dot-or-space", skill_zip("demo/run.py."), None
    yield "zip-trailing-space", "trailing-dot-or-space", skill_zip("demo/run.py "), None
    yield "zip-reserved-name", "reserved-name", skill_zip("demo/aux.md"), None
    yield "zip-path-too-long", "path-too-long", skill_zip("demo/" + "/".join(["a" * 100] * 12)), None
    yield "zip-name-too-long", "path-too-long", skill_zip("demo/" + "a" * 256), None
    yield "zip-too-deep", "too-deep", skill_zip("demo/" + "d/" * 40 + "f"), None
    directory = {"mode": 0o40755}
    yield "zip-too-deep-by-one", "too-deep", skill_zip(("demo/" + "d/" * 33, b"", directory)), None


def together():
    yield "zip-duplicate-name", "duplicate-name", skill_zip("demo/run", ("demo/run", b"other", {})), "collides"
    yield "zip-case-collision", "name-collision", skill_zip("demo/Run", "demo/run"), "collides"
    yield "zip-directory-case-collision", "name-collision", skill_zip("demo/A/x", "demo/a/y"), "collides"
    composed, apart = ("demo/caf\u00e9", b"1", NAMED), ("demo/cafe\u0301", b"2", NAMED)
    yield "zip-unicode-collision", "name-collision", skill_zip(composed, apart), "collides"
    yield "zip-shapeless-collision", "name-collision", skill_zip("demo/run", ("demo/ru\u200bn", b"", NAMED)), None
    yield "zip-file-and-directory", "file-and-directory", skill_zip("demo/a", "demo/a/b"), None
    yield "zip-directory-and-file", "file-and-directory", skill_zip("demo/a/b", "demo/a"), None
    yield "zip-file-named-as-directory", "file-and-directory", skill_zip(("demo/a/", b"", {})), None
    yield "zip-directory-named-as-file", "file-and-directory", skill_zip(("demo/a", b"", {"mode": 0o40755})), None


def entries(outside):
    link = {"mode": 0o120777}
    yield "zip-link-out-absolute", "link-out", skill_zip(("demo/l", outside.encode(), link)), "escapes"
    yield "zip-link-out-parent", "link-out", skill_zip(("demo/l", b"../..", link)), "escapes"
    # By its text it stays in `demo/x`; where it really leads, another link says.
    chain = [("demo/x/y/up", b"../..", link), ("demo/x/y/l", b"up/../..", link)]
    yield "zip-link-out-by-another", "link-out", skill_zip(*chain), "escapes"
    out_then_write = [("demo/l", outside.encode(), link), "demo/l/escaped"]
    yield "zip-link-out-then-write", "link-out", skill_zip(*out_then_write), "escapes"
    yield "zip-write-through-link", "through-link", skill_zip("demo/d/x", ("demo/l", b"d", link), "demo/l/y"), None
    yield "zip-link-over-directory", "through-link", skill_zip("demo/l/y", ("demo/l", b"d", link)), None
    yield "zip-link-with-control", "link-out", skill_zip(("demo/l", b"a\nb", link)), None
    yield "zip-link-not-utf8", "not-utf8", skill_zip(("demo/l", b"\xff", link)), None
    yield "zip-link-too-long", "path-too-long", skill_zip(("demo/l", b"a" * 2000, link)), None
    for kind, code, mode in [("character-device", "device", 0o020644), ("block-device", "device", 0o060644),
                             ("pipe", "pipe", 0o010644), ("socket", "socket", 0o140755),
                             ("unknown-type", "unsupported-entry", 0o070644), ("setuid", "setuid", 0o104755),
                             ("setgid", "setuid", 0o102755)]:
        yield f"zip-{kind}", code, skill_zip(("demo/a", b"", {"mode": mode})), None
    yield "zip-directory-with-data", "entry-with-data", skill_zip(("demo/d/", b"data", {"mode": 0o40755})), None
    yield "zip-encrypted", "encrypted", skill_zip(("demo/a", b"x" * 16, {"flags": 1})), None
    yield "zip-encrypted-strongly", "encrypted", skill_zip(("demo/a", b"x" * 16, {"flags": 1 << 6})), None
    yield "zip-encrypted-directory", "encrypted", skill_zip(("demo/a", b"x" * 16, {"flags": 1 << 13})), None
    for method in (9, 12, 14, 93, 99):
        yield f"zip-method-{method}", "compression-method", skill_zip(("demo/a", b"x", {"method": method})), None


def lying(**options):
    return skill_zip(("demo/a", b"content" * 10, options))


def structure():
    yield "zip-local-name-differs", "header-mismatch", lying(local={"name": b"demo/b"}), None
    yield "zip-local-name-escapes", "header-mismatch", lying(local={"name": b"../a"}), None
    yield "zip-local-size-differs", "header-mismatch", lying(local={"size": 1}), None
    yield "zip-local-packed-differs", "header-mismatch", lying(local={"packed": 1}), None
    yield "zip-local-checksum-differs", "header-mismatch", lying(local={"crc": 1}), None
    yield "zip-local-method-differs", "header-mismatch", lying(local={"method": 8}), None
    yield "zip-local-flags-differ", "header-mismatch", lying(local={"flags": 1}), None
    yield "zip-bad-checksum", "bad-checksum", lying(crc=1), None
    yield "zip-stored-size-lies", "lying-size", lying(size=700), None
    yield "zip-size-too-small", "lying-size", lying(method=8, size=3), None
    yield "zip-size-too-large", "lying-size", lying(method=8, size=700), None
    yield "zip-data-after-deflate", "lying-size", lying(method=8, raw=deflate(b"content" * 10) + b"hidden"), None
    yield "zip-deflate-cut-short", "lying-size", lying(method=8, raw=deflate(b"content" * 10)[:-4]), None
    yield "zip-deflate-damaged", "bad-compression", lying(method=8, raw=b"\xff" * 20), None
    descriptor = struct.pack("<4s3I", b"PK\7\x08", 1, 2, 3)
    unknown = {"crc": 0, "packed": 0, "size": 0}
    yield "zip-descriptor-lies", "header-mismatch", lying(flags=8, local=unknown, descriptor=descriptor), None
    yield "zip-descriptor-missing", "hidden-data", lying(flags=8, local=unknown), None
    yield "zip-descriptor-64", "zip64", lying(flags=8, local=unknown, descriptor=b"\0" * 24), None
    path = extra_field(0x7075, b"\1\0\0\0\0demo/other")
    yield "zip-unicode-path-differs", "header-mismatch", lying(central_extra=path), None
    yield "zip-local-unicode-path-differs", "header-mismatch", lying(local_extra=path), None
    yield "zip-extra-too-long", "bad-header", lying(central_extra=b"\x99\x99\xff\0"), None
    yield "zip-entry-on-another-disk", "bad-header", lying(disk=1), None

    good = skill_zip("demo/a")
    directory = good.index(b"PK\1\2")
    yield "zip-no-directory", "truncated", good[:directory], None
    yield "zip-cut-in-half", "truncated", good[:len(good) // 2], None
    yield "zip-cut-in-end-record", "truncated", good[:-5], None
    yield "zip-comment-cut", "truncated", skill_zip(comment=b"a comment")[:-4], None
    yield "zip-trailing-data", "trailing-data", good + b"#!/bin/sh\necho hidden\n", None
    yield "zip-binary-comment", "trailing-data", skill_zip(comment=b"\x7fELF\0\0"), None
    yield "zip-two-zips", "data-before", skill_zip("demo/b") + good, None
    yield "zip-behind-a-script", "data-before", b"#!/bin/sh\nexit\n" + good, None
    adjusted = Zip(prefix=b"#!/bin/sh\nexit\n")
    adjusted.add("demo/SKILL.md", MANIFEST)
    yield "zip-self-extractor", "data-before", adjusted.done(), None
    yield "zip-behind-an-image", "data-before", b"\x89PNG\r\n\x1a\n" + b"\0" * 600 + good, None
    hidden = {"listed": False}
    first = Zip()
    first.add("demo/hidden", b"x", **hidden)
    first.add("demo/SKILL.md", MANIFEST)
    yield "zip-hidden-first-entry", "data-before", first.done(), None
    yield "zip-hidden-entry", "hidden-data", skill_zip(("demo/h", b"x", hidden), "demo/b"), None
    yield "zip-hidden-last-entry", "hidden-data", skill_zip(("demo/h", b"x", hidden)), None
    yield "zip-uncounted-entry", "hidden-data", skill_zip("demo/a", here=1, all=1), None
    yield "zip-overcounted-entries", "truncated", skill_zip("demo/a", here=9, all=9), None
    yield "zip-before-end-record", "hidden-data", skill_zip(before_end=b"hidden"), None
    yield "zip-many-disks", "bad-header", skill_zip(disk=1), None
    yield "zip-counts-differ", "bad-header", skill_zip(here=1, all=2), None
    yield "zip-directory-beyond-end", "truncated", skill_zip(bytes=1 << 20), None
    yield "zip-empty", "empty", Zip().done(), None
    yield "zip-nothing-listed", "hidden-data", skill_zip(here=0, all=0), None

    same = Zip()
    start = same.add("demo/SKILL.md", MANIFEST)
    same.add("demo/SKILL.md", MANIFEST, offset=start)
    yield "zip-one-content-twice", "overlap", same.done(), None
    # The content of the first is the header of the second and its content: a bomb that quotes itself.
    quoted = Zip()
    inner = local_header({"name": b"demo/b", "flags": 0, "method": 0, "crc": 0, "packed": 0, "size": 0}, b"")
    start = quoted.add("demo/a", inner) + len(local_header({"name": b"demo/a", "flags": 0, "method": 0, "crc": 0,
                                                           "packed": 0, "size": 0}, b""))
    quoted.add("demo/b", offset=start, crc=0)
    yield "zip-quoted-overlap", "overlap", quoted.done(), None
    into_directory = Zip()
    into_directory.add("demo/SKILL.md", MANIFEST, packed=len(MANIFEST) + 20, size=len(MANIFEST) + 20)
    yield "zip-content-in-directory", "overlap", into_directory.done(), None

    # A first entry whose extra field is the rest of a tar header: a tar to tar, a zip to unzip.
    both = bytearray(tar_header("PK\3\4", len(MANIFEST)))
    both[:30] = local_header({"name": b"", "flags": 0, "method": 0, "crc": 0, "packed": 0, "size": 0}, b"")
    both[28:30] = struct.pack("<H", 512 - 30)
    both[148:156] = b" " * 8
    both[148:156] = b"%06o\0 " % sum(both)
    yield "zip-and-tar", "polyglot", bytes(both) + skill_tar() + skill_zip(), None


def zip64():
    sizes = extra_field(1, struct.pack("<2Q", 1, 1))
    yield "zip64-extra", "zip64", lying(central_extra=sizes), None
    yield "zip64-local-extra", "zip64", lying(local_extra=sizes), None
    yield "zip64-size", "zip64", lying(method=8, size=0xFFFFFFFF, central_extra=sizes), None
    yield "zip64-count", "zip64", skill_zip(here=0xFFFF, all=0xFFFF), None
    yield "zip64-directory", "zip64", skill_zip(start=0xFFFFFFFF), None
    yield "zip64-locator", "zip64", skill_zip(before_end=struct.pack("<4sIQI", b"PK\6\7", 0, 0, 1)), None


def amounts():
    zeros = bytes(40 << 20)
    yield "zip-bomb", "ratio", skill_zip(("demo/zeros", zeros, {"method": 8})), "expands"
    inner = skill_tar(tar_header("demo/zeros", len(zeros)), zeros)
    yield "zip-bomb-in-a-tar-inside", "ratio", skill_zip(("demo/inner.tar", inner, {"method": 8})), "expands"
    half = {"method": 8, "size": 700 << 20}
    yield "zip-too-many-bytes", "too-many-bytes", skill_zip(("demo/a", b"", half), ("demo/b", b"", half)), None
    yield "zip-file-too-large", "file-too-large", skill_zip(("demo/a", b"", {"method": 8, "size": 3 << 30})), None
    yield "zip-too-many-entries", "too-many-entries", skill_zip(*(f"demo/{n}" for n in range(20_001))), None
    deep = (f"demo/{n}/" + "d/" * 20 + "f" for n in range(1000))
    yield "zip-too-many-implied-directories", "too-many-entries", skill_zip(*deep), None


def skills():
    def bare(*names):
        zip_file = Zip()
        for name in names:
            zip_file.add(name, MANIFEST)
        return zip_file.done()

    yield "zip-two-roots", "two-roots", skill_zip("other/a"), None
    yield "zip-two-skills", "two-roots", skill_zip("other/SKILL.md"), None
    yield "zip-no-manifest", "no-manifest", bare("demo/README.md"), None
    yield "zip-manifest-too-deep", "no-manifest", bare("a/b/SKILL.md"), None
    yield "zip-several-manifests", "several-manifests", bare("SKILL.md", "other/SKILL.md"), None
    yield "zip-both-manifests", "several-manifests", bare("demo/SKILL.md", "demo/skill.md"), None
    yield "zip-only-clutter", "empty", bare("__MACOSX/SKILL.md", ".DS_Store"), None
    link = Zip()
    link.add("demo/SKILL.md", b"other.md", mode=0o120777)
    link.add("demo/other.md", MANIFEST)
    yield "zip-manifest-is-a-link", "no-manifest", link.done(), None
